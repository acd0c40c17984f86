"""Recognise a function that builds a table of coalitions, [coalition, token or unit], by hand.

It makes a boolean array of two dimensions:

- `np.ones((4, count), dtype=bool)`, also `zeros`, `full`, `empty`, of NumPy or PyTorch, or `eye(count, dtype=bool)`;
- `rank < counts[:, None]`, a comparison in which one side is a column, by name or in place, unless it is summed up;
- `generator.random((4, count)) < 0.5`, a draw;
- rows of one dimension (`np.ones(count, dtype=bool)`, `generator.random(count) < 0.5`) beside a call that stacks rows;
- `[~each]`, a list that holds an inverted array.
"""

import ast

MAKERS = frozenset({"ones", "zeros", "full", "empty", "eye"})
DRAWS = frozenset({"random", "random_sample", "rand"})
STACKS = frozenset({"stack", "vstack", "concatenate"})
SUMS = frozenset({"sum", "mean", "any", "all"})


def called(node: ast.AST) -> str:
    """The last name of what a node calls; blank if it is no call."""
    function = getattr(node, "func", None)
    return getattr(function, "attr", getattr(function, "id", "")) if isinstance(node, ast.Call) else ""


def builds_table(function: ast.FunctionDef) -> bool:
    """Whether a function makes a boolean array of two dimensions."""
    inside = list(ast.walk(function))
    columns = {
        target.id
        for node in inside
        if isinstance(node, ast.Assign) and has_column(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    summed = {id(each) for node in inside if called(node) in SUMS for each in ast.walk(node)}
    compared = [node for node in inside if isinstance(node, ast.Compare)]
    sizes = [made(node) for node in inside] + [drawn(side) for node in compared for side in sides(node)]
    tables = [
        any(size > 1 for size in sizes),
        any(size == 1 for size in sizes) and any(map(is_stack, inside)),
        any(is_column(side, columns) for node in compared if id(node) not in summed for side in sides(node)),
        any(isinstance(node, ast.List) and any(map(is_inverted, node.elts)) for node in inside),
    ]
    return any(tables)


def sides(node: ast.Compare) -> list[ast.expr]:
    return [node.left, *node.comparators]


def made(node: ast.AST) -> int:
    """The dimensions of the boolean array that a call makes, 0 if it makes none."""
    if not isinstance(node, ast.Call) or called(node) not in MAKERS:
        return 0
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    if not any(ast.unparse(value) in ("bool", "np.bool_", "torch.bool") for value in given):
        return 0
    shape = node.args[0] if node.args else None
    return 2 if called(node) == "eye" else len(shape.elts) if isinstance(shape, ast.Tuple | ast.List) else 1


def drawn(node: ast.AST) -> int:
    """The dimensions of the largest random draw in a node, 0 if there is none."""
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call) and called(each) in DRAWS and each.args]
    return max((len(getattr(each.args[0], "elts", each.args)) for each in calls), default=0)


def has_column(node: ast.AST) -> bool:
    """Whether a node has an index such as [:, None]."""
    return any(isinstance(each, ast.Subscript) and ast.unparse(each.slice) == "(:, None)" for each in ast.walk(node))


def is_column(node: ast.expr, names: set[str]) -> bool:
    return has_column(node) or (isinstance(node, ast.Name) and node.id in names)


def is_stack(node: ast.AST) -> bool:
    """Whether a call makes an array of rows."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return False
    return called(node) in STACKS or (called(node) == "array" and isinstance(node.args[0], ast.List | ast.ListComp))


def is_inverted(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert)
