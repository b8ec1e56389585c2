"""Use the queries of workloads to choose the decayed partitions that wait, and the rewrites that a budget prefers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from zlayout.advisor.worth import worth
from zlayout.app.concurrent_reads import Reading, no_answer, read_tables
from zlayout.app.proposing import proposed, unreadable
from zlayout.app.workloads import TableQueries, Workloads
from zlayout.errors import Diagnostic
from zlayout.formats.base import Backend
from zlayout.planner.decision import Decision, PlanOptions
from zlayout.planner.model import Status
from zlayout.planner.partition_text import partition_text
from zlayout.planner.proposal import Proposal
from zlayout.planner.waiting import least_read, may_wait
from zlayout.report.words import share
from zlayout.workload import Workload

Made = Proposal | Decision
ROUNDING = 1e-9  # the tolerance, as a share, for rounding errors in sums of executions


def with_queries(
    proposals: Sequence[Made],
    is_wanted: Callable[[Proposal], bool],
    find: Callable[[Proposal, Workload], Made],
    late: Callable[[Proposal], Made],
    reading: Reading,
) -> list[Made]:
    """Make new proposals for some of the tables that have a workload. Raises the errors of `read_workload`.

    Args:
        is_wanted: Whether a proposal is to be replaced.
        find: Makes the replacement from a proposal and the workload of its table.
        late: Makes the replacement for a table that cannot be read again within the time limit.
    """
    with_workload = [p for p in proposals if isinstance(p, Proposal) and p.spec.workload]
    wanted = [p for p in with_workload if is_wanted(p)]
    workloads = Workloads([(p.spec, p.state) for p in with_workload])
    # Not in a thread, because an invalid file stops the plan.
    read = {p.spec.table: workloads.of(p.spec) for p in wanted}
    found = read_tables(wanted, lambda p: p.spec.table, lambda p: find(p, read[p.spec.table]), late, reading)
    by_table = {p.spec.table: made for p, made in zip(wanted, found, strict=True)}
    return [by_table.get(p.spec.table, p) if isinstance(p, Proposal) else p for p in proposals]


def with_rarely_read(
    proposals: Sequence[Made], backends: Mapping[str, Backend], options: PlanOptions, reading: Reading
) -> list[Made]:
    """Return the proposals without the decayed partitions that `tolerance.rarely_read` allows to wait.

    Nothing is read for a table without this tolerance, without a workload, or without decayed partitions. A table keeps
    its proposal if no query of its workload can skip its files. If the bounds of the queried columns cannot be read,
    the table has the status ERROR, because its plan would rewrite partitions that should wait.

    backends: By catalog name. Raises the errors of `read_workload`.
    """
    if options.include_rarely_read:
        return list(proposals)

    def propose_again(proposal: Proposal, workload: Workload) -> Made:
        backend = backends[proposal.spec.table.catalog]
        try:
            return _waiting(proposal, workload, backend, options)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return unreadable(proposal.spec, backend, error)

    def late(proposal: Proposal) -> Decision:
        spec = proposal.spec
        error = no_answer(spec.table, reading.timeout, spec.location)
        return unreadable(spec, backends[spec.table.catalog], error)

    def has_decayed(proposal: Proposal) -> bool:
        spec = proposal.spec
        declared = spec.tolerance.rarely_read is not None
        return declared and bool(may_wait(spec, proposal.selection, proposal.state.files))

    return with_queries(proposals, has_decayed, propose_again, late, reading)


def _waiting(proposal: Proposal, workload: Workload, backend: Backend, options: PlanOptions) -> Made:
    """Propose again, without the partitions that are rarely read."""
    spec, state = proposal.spec, proposal.state
    if proposal.selection.moves:  # the files of a partition are rewritten together with the rows that move to it
        return _without_effect(
            proposal, "files are moved to the declared partitioning", "nothing to do; later runs use it"
        )
    hint = f"`zlayout advise {spec.table.on('')} -v` lists the conditions that are not used"
    found = TableQueries.of(spec, state, workload, backend)
    if found is None:
        return _without_effect(proposal, "no query of the workload can skip files of the table", hint)
    known, unknown = (sum(query.weight for query in queries) for queries in (found.known, found.unknown))
    # An execution whose conditions cannot be used may read any partition, also one that waits.
    allowed = (spec.tolerance.rarely_read or 0) * (known + unknown) * (1 + ROUNDING) - unknown
    if allowed < 0:
        part = share(unknown / (known + unknown))
        return _without_effect(proposal, f"{part} of the executions of the workload may read any partition", hint)
    reads, decayed = found.executions(), {partition_text(p) for p in may_wait(spec, proposal.selection, state.files)}
    chosen = least_read({name: reads[name] for name in decayed}, allowed)
    return proposed(spec, state, backend, replace(options, rarely_read=chosen)) if chosen else proposal


def _without_effect(proposal: Proposal, why: str, hint: str) -> Proposal:
    spec, key = proposal.spec, "tolerance.rarely_read"
    note = Diagnostic("ZL404", f"{key} has no effect: {why}", "note", hint, spec.location_of(key))
    return replace(proposal, notes=(*proposal.notes, note))


def with_worth(
    proposals: Sequence[Made], backends: Mapping[str, Backend], budget: int | None, reading: Reading
) -> list[Made]:
    """Return the proposals with the worth of their candidates, by which a budget ranks them.

    Nothing is read if the budget is enough for all candidates. A table keeps its proposal, and the budget ranks its
    candidates by touched, if it has no workload or no z-order columns, if no query of the workload can skip its files,
    or if its metadata cannot be read again within the time limit.

    backends: By catalog name. Raises the errors of `read_workload`.
    """
    changing = [p for p in proposals if isinstance(p, Proposal) and p.status is Status.CHANGES]
    if budget is None or sum(p.whole.bytes for p in changing if p.whole is not None) <= budget:
        return list(proposals)

    def find(proposal: Proposal, workload: Workload) -> Proposal:
        try:
            return _with_worth(proposal, workload, backends[proposal.spec.table.catalog])
        except Exception:
            # A reader may raise anything. The budget then ranks by touched, and the forecast gets a warning.
            return proposal

    def is_ranked(proposal: Proposal) -> bool:
        return proposal.status is Status.CHANGES and proposal.spec.layout.orders and bool(proposal.candidates)

    return with_queries(proposals, is_ranked, find, lambda proposal: proposal, reading)


def _with_worth(proposal: Proposal, workload: Workload, backend: Backend) -> Proposal:
    spec, state = proposal.spec, proposal.state
    found = TableQueries.of(spec, state, workload, backend)
    if found is None or not found.state.files.path.equals(state.files.path):
        return proposal
    return replace(
        proposal, worth=worth(spec, found.state.files, proposal.now, proposal.selection.groups, found.queries)
    )
