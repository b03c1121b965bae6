"""Finds the tables of SQL statements that write to the table that an expression names.

An example is `f"UPDATE {table.name} SET ..."`. The expression's values are found in constants, in
loops over constants, in the arguments of a private function, and in the fields of a class.
"""

import ast
import re
from collections.abc import Iterator, Sequence

import msgspec

_WRITE = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+(?:ONLY )?")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class ExpressionWrite(msgspec.Struct, frozen=True):
    expression: str
    tables: frozenset[str]  # empty if the values of the expression are unknown


class _Unknown(Exception):
    """An expression whose values are not constants."""


def expression_writes(text: str, texts: Sequence[str]) -> Iterator[ExpressionWrite]:
    """Finds such writes in a module.

    `texts` are all modules that can create the objects whose fields the expressions read.
    """
    if not re.search(r"INSERT|UPDATE|DELETE", text):
        return
    module = ast.parse(text)
    for scope in (module, *_functions(module)):
        for written in _written(scope):
            try:
                tables = frozenset(_Values(module, texts).of(written, scope))
            except _Unknown:
                tables = frozenset()
            yield ExpressionWrite(ast.unparse(written), tables)


def _written(scope: ast.Module | Function) -> Iterator[ast.expr]:
    for node in _own_nodes(scope):
        if isinstance(node, ast.JoinedStr):
            for before, part in zip(node.values, node.values[1:], strict=False):
                match before, part:
                    case ast.Constant(str(sql)), ast.FormattedValue(written):
                        if any(found.end() == len(sql) for found in _WRITE.finditer(sql)):
                            yield written


def _functions(module: ast.Module) -> list[Function]:
    return [node for node in ast.walk(module) if isinstance(node, Function)]


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes of a module or a function, without those of the functions in it."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, Function):
            yield node
            yield from _own_nodes(node)


class _Values(msgspec.Struct, frozen=True):
    """Finds the strings that an expression of a module can have."""

    module: ast.Module
    texts: Sequence[str]

    def of(self, node: ast.expr, scope: ast.Module | Function) -> set[str]:
        match node:
            case ast.Constant(str(value)):
                return {value}
            case ast.Name(name):
                return self._of_name(name, scope)
            case ast.Attribute(ast.Name(owner), field) if isinstance(scope, Function):
                for parameter in _parameters(scope):
                    if parameter.arg == owner and isinstance(parameter.annotation, ast.Name):
                        return self._of_field(parameter.annotation.id, field)
        raise _Unknown

    def _of_name(self, name: str, scope: ast.Module | Function) -> set[str]:
        for node in _own_nodes(scope):
            match node:
                case ast.For(target, ast.Tuple(items)) if name in _names(target):
                    return self._of_each([_item(target, item, name) for item in items], scope)
                case ast.Assign([ast.Name(target)], value) if target == name:
                    return self.of(value, scope)
        if isinstance(scope, ast.Module):
            raise _Unknown
        names = [parameter.arg for parameter in _parameters(scope)]
        if name not in names:
            return self._of_name(name, self.module)
        return self._of_argument(scope.name, names.index(name), name)

    def _of_argument(self, function: str, position: int, name: str) -> set[str]:
        """Returns the values that the calls of a private function give a parameter."""
        found: set[str] = set()
        for scope in (self.module, *_functions(self.module)) if function.startswith("_") else ():
            for call in _calls(_own_nodes(scope), function):
                found |= self.of(_argument(call, position, name), scope)
        return found

    def _of_field(self, owner: str, field: str) -> set[str]:
        """Returns the values that a field has in all objects that the code creates."""
        nodes = [
            node
            for text in self.texts
            if re.search(rf"\b{owner}\b", text)
            for node in ast.walk(ast.parse(text))
        ]
        declared = [n for n in nodes if isinstance(n, ast.ClassDef) and n.name == owner]
        body = [each for node in declared for each in node.body]
        fields = [ast.unparse(each.target) for each in body if isinstance(each, ast.AnnAssign)]
        if field not in fields:
            raise _Unknown
        created = [_argument(call, fields.index(field), field) for call in _calls(nodes, owner)]
        return self._of_each(created, self.module)

    def _of_each(self, nodes: Sequence[ast.expr], scope: ast.Module | Function) -> set[str]:
        return {value for node in nodes for value in self.of(node, scope)}


def _parameters(function: Function) -> list[ast.arg]:
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def _calls(nodes: Iterator[ast.AST] | list[ast.AST], name: str) -> list[ast.Call]:
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return [call for call in calls if ast.unparse(call.func).split(".")[-1] == name]


def _argument(call: ast.Call, position: int, name: str) -> ast.expr:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position >= len(call.args) or any(isinstance(each, ast.Starred) for each in call.args):
        raise _Unknown
    return call.args[position]


def _names(target: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


def _item(target: ast.expr, item: ast.expr, name: str) -> ast.expr:
    """Returns the part of a loop's item that the loop assigns to the name."""
    match target, item:
        case ast.Tuple(), ast.Tuple(parts):
            return parts[_names(target).index(name)]
        case ast.Name(), _:
            return item
    raise _Unknown
