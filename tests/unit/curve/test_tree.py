import numpy as np

from zlayout.curve.tree import KdTree, locate


def tree(nodes: list[tuple[int, int, int, int]]) -> KdTree:
    table = np.array(nodes, np.int64).reshape(-1, 4)
    leaves = len(nodes) + 1
    return KdTree(
        column=table[:, 0].astype(np.int32),
        threshold=table[:, 1],
        left=table[:, 2].astype(np.int32),
        right=table[:, 3].astype(np.int32),
        file=np.arange(leaves, dtype=np.int32),
        spread=np.ones(leaves, np.int32),
        rows=np.ones(leaves),
        oversized=np.zeros(0, np.int32),
    )


def test_left_is_below_the_threshold_and_null_is_always_left() -> None:
    found = tree([(0, 5, ~0, 1), (1, 0, ~1, ~2)])
    first, second = np.array([4, 5, 5, -1, 6]), np.array([9, -1, 0, 9, 7])
    assert locate(found, [first, second]).tolist() == [0, 1, 2, 0, 2]
    assert found.depth == 2


def test_a_tree_without_nodes_is_one_leaf() -> None:
    assert locate(tree([]), [np.array([3, -1])]).tolist() == [0, 0]
    assert tree([]).depth == 0
