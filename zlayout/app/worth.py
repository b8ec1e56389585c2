"""Find what the candidates of plans save the queries of workloads, so that a budget can rank them. Starts no JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zlayout.advisor.worth import worth
from zlayout.app.concurrent_reads import Reading
from zlayout.app.workloads import Asked, Made, with_queries
from zlayout.formats.base import Backend
from zlayout.planner.model import Status
from zlayout.planner.proposal import Proposal
from zlayout.workload import Workload


def with_worth(
    proposals: Sequence[Made], backends: Mapping[str, Backend], budget: int | None, reading: Reading
) -> list[Made]:
    """Return the proposals with what their candidates save the queries of the workload of their table.

    Nothing is read if the budget is enough for all candidates. A table keeps its proposal, and the budget ranks its
    candidates by touched, if it has no workload or no z-order columns, if no query of the workload can skip its files,
    or if its files cannot be read again within the time limit.

    backends: by the name of the catalog. Raises the errors of `read_workload`.
    """
    changing = [p for p in proposals if isinstance(p, Proposal) and p.status is Status.CHANGES]
    if budget is None or sum(p.whole.bytes for p in changing if p.whole is not None) <= budget:
        return list(proposals)

    def find(proposal: Proposal, workload: Workload) -> Proposal:
        try:
            return _with_worth(proposal, workload, backends[proposal.spec.table.catalog])
        except Exception:
            # Whatever a reader raises: the budget ranks by touched, and the forecast of the workload gets a warning.
            return proposal

    def is_ranked(proposal: Proposal) -> bool:
        return proposal.status is Status.CHANGES and proposal.spec.layout.orders and bool(proposal.candidates)

    return with_queries(proposals, is_ranked, find, lambda proposal: proposal, reading)


def _with_worth(proposal: Proposal, workload: Workload, backend: Backend) -> Proposal:
    spec, state = proposal.spec, proposal.state
    asked = Asked.of(spec, state, workload, backend)
    if asked is None or not asked.state.files.path.equals(state.files.path):
        return proposal
    return replace(
        proposal, worth=worth(spec, asked.state.files, proposal.now, proposal.selection.groups, asked.queries)
    )
