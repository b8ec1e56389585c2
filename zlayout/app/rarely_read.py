"""Find the decayed partitions that the queries of workloads rarely read, so that they wait. Starts no JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zlayout.app.concurrent_reads import Reading, Step, no_answer, read_all
from zlayout.app.proposing import proposed, unreadable
from zlayout.app.workloads import Asked, Workloads
from zlayout.errors import Diagnostic
from zlayout.formats.base import Backend
from zlayout.planner.decision import Decision, PlanOptions
from zlayout.planner.partition_text import partition_text
from zlayout.planner.proposal import Proposal
from zlayout.planner.rarely_read import least_read, may_wait
from zlayout.workload import Workload

Made = Proposal | Decision
ROUNDING = 1e-9  # of a share of a number of executions


def with_rarely_read(
    proposals: Sequence[Made], backends: Mapping[str, Backend], options: PlanOptions, reading: Reading
) -> list[Made]:
    """Return the proposals, in which the decayed partitions wait that `tolerance.rarely_read` allows to wait.

    Nothing is read for a table that does not declare it, that has no workload, or of which no partition has decayed. A
    table keeps its proposal if no query of its workload can skip files of it. If the metadata of the columns of the
    queries cannot be read, the table has the status ERROR, because its plan would rewrite what should wait.

    Args:
        proposals: One per table, or the decision about a table without a proposal.
        backends: By the name of the catalog.
        options: The limits of the plan.
        reading: The limits on reading.

    Raises:
        SpecError: ZL002, ZL003, ZL070 to ZL072, a workload file is invalid.
    """
    made = list(proposals)
    decayed = {n: p for n, p in enumerate(made) if isinstance(p, Proposal) and _declares(p) and _decayed(p)}
    if not decayed or options.include_rarely_read:
        return made
    workloads = Workloads([(p.spec, p.state) for p in made if isinstance(p, Proposal) and p.spec.workload])
    asked = [(p, workloads.of(p.spec)) for p in decayed.values()]  # here, because an invalid file stops the plan
    catalogs = [p.spec.table.catalog for p in decayed.values()]

    def propose_again(at: int) -> Made:
        proposal, workload = asked[at]
        backend = backends[catalogs[at]]
        try:
            return _waiting(proposal, workload, backend, options)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return unreadable(proposal.spec, backend, error)

    def late(at: int) -> Decision:
        spec = asked[at][0].spec
        return unreadable(spec, backends[catalogs[at]], no_answer(spec.table, reading.timeout, spec.location))

    on_done = reading.reporting(Step.FORECASTING, [p.spec.table for p in decayed.values()])
    found = read_all(catalogs, propose_again, late, reading, on_done)
    for number, proposal in zip(decayed, found, strict=True):
        made[number] = proposal
    return made


def _declares(proposal: Proposal) -> bool:
    return proposal.spec.tolerance.rarely_read is not None and bool(proposal.spec.workload)


def _decayed(proposal: Proposal) -> bool:
    return bool(may_wait(proposal.spec, proposal.selection, proposal.state.files))


def _waiting(proposal: Proposal, workload: Workload, backend: Backend, options: PlanOptions) -> Made:
    """Propose again, without the partitions that are rarely read."""
    spec, state = proposal.spec, proposal.state
    if proposal.selection.moves:  # what arrives in a partition is merged with its files, so that each is planned once
        return _without_effect(
            proposal, "files are moved to the declared partitioning", "nothing to do; later runs use it"
        )
    hint = f"`zlayout advise {spec.table.on('')} -v` lists the conditions that are not used"
    found = Asked.of(spec, state, workload, backend)
    if found is None:
        return _without_effect(proposal, "no query of the workload can skip files of the table", hint)
    known, unknown = (sum(query.weight for query in queries) for queries in (found.known, found.unknown))
    # An execution whose conditions cannot be used may read what waits.
    allowed = (spec.tolerance.rarely_read or 0) * (known + unknown) * (1 + ROUNDING) - unknown
    if allowed < 0:
        share = f"{100 * unknown / (known + unknown):.3g} %"
        return _without_effect(proposal, f"{share} of the executions of the workload may read any partition", hint)
    reads, decayed = found.executions(), {partition_text(p) for p in may_wait(spec, proposal.selection, state.files)}
    chosen = least_read({name: reads[name] for name in decayed}, allowed)
    return proposed(spec, state, backend, replace(options, rarely_read=chosen)) if chosen else proposal


def _without_effect(proposal: Proposal, why: str, hint: str) -> Proposal:
    """Return the proposal with ZL404, because nothing waits."""
    spec, key = proposal.spec, "tolerance.rarely_read"
    note = Diagnostic("ZL404", f"{key} has no effect: {why}", "note", hint, spec.location_of(key))
    return replace(proposal, notes=(*proposal.notes, note))
