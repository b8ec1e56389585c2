"""Find what the candidates of plans save the queries of workloads, so that a budget can rank them. Starts no JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zlayout.advisor.worth import worth
from zlayout.app.concurrent_reads import Reading, Step, read_all
from zlayout.app.workloads import Asked, Workloads
from zlayout.formats.base import Backend
from zlayout.planner.decision import Decision
from zlayout.planner.model import Status
from zlayout.planner.proposal import Proposal
from zlayout.workload import Workload


def with_worth(
    proposals: Sequence[Proposal | Decision], backends: Mapping[str, Backend], budget: int | None, reading: Reading
) -> list[Proposal | Decision]:
    """Return the proposals with what their candidates save the queries of the workload of their table.

    Nothing is read if the budget is enough for all candidates. A table keeps its proposal, and the budget ranks its
    candidates by touched, if it has no workload or no z-order columns, if no query of the workload can skip its files,
    or if its files cannot be read again within the time limit.

    Args:
        proposals: One per table, or the decision about a table without a proposal.
        backends: By the name of the catalog.
        budget: The limit on rewritten bytes; None for no limit.
        reading: The limits on reading.

    Raises:
        SpecError: ZL002, ZL003, ZL070 to ZL072, a workload file is invalid.
    """
    made = list(proposals)
    if budget is None:
        return made
    ranked = {n: p for n, p in enumerate(made) if isinstance(p, Proposal) and p.status is Status.CHANGES}
    if sum(p.whole.bytes for p in ranked.values() if p.whole is not None) <= budget:
        return made
    ranked = {n: p for n, p in ranked.items() if p.spec.workload and p.spec.layout.orders and p.candidates}
    workloads = Workloads([(p.spec, p.state) for p in made if isinstance(p, Proposal) and p.spec.workload])
    asked = [(p, workloads.of(p.spec)) for p in ranked.values()]  # here, because an invalid file stops the plan

    def find(at: int) -> Proposal:
        proposal, workload = asked[at]
        try:
            return _with_worth(proposal, workload, backends[proposal.spec.table.catalog])
        except Exception:
            # Whatever a reader raises: the budget ranks by touched, and the forecast of the workload gets a warning.
            return proposal

    tables = [p.spec.table for p in ranked.values()]
    on_done = reading.reporting(Step.FORECASTING, tables)
    found = read_all([table.catalog for table in tables], find, lambda at: asked[at][0], reading, on_done)
    for number, proposal in zip(ranked, found, strict=True):
        made[number] = proposal
    return made


def _with_worth(proposal: Proposal, workload: Workload, backend: Backend) -> Proposal:
    spec, state = proposal.spec, proposal.state
    asked = Asked.of(spec, state, workload, backend)
    if asked is None or not asked.state.files.path.equals(state.files.path):
        return proposal
    return replace(
        proposal, worth=worth(spec, asked.state.files, proposal.now, proposal.selection.groups, asked.queries)
    )
