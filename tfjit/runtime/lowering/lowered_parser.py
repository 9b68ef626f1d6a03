"""Parse the text form of lowered partitions (`lowered_text.py`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NoReturn, get_args

import numpy as np

from tfjit.framework.errors import OpError
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import IF, WHILE
from tfjit.framework.types import dtypes
from tfjit.kernels.registry import NodeSpec, find_reference
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.graph_def import derived_attrs, signature
from tfjit.passes.text.group_text import KEY, WORD, quoted, read_tensor
from tfjit.passes.text.tensor_files import TensorFiles
from tfjit.passes.text.text_format import definition
from tfjit.passes.text.value_text import TextError, ValueReader, statements
from tfjit.runtime.lowering.lowered import Instruction, Lowered, Serving, Value, copy_out
from tfjit.runtime.lowering.lowered_text import Region, begun, expected_path
from tfjit.runtime.lowering.structured_control_flow import Construct
from tfjit.runtime.resources.variables_and_resources import Variable

_NUMBER: Final = re.compile(r"%(\d+)")


def parse_lowered(
    text: str,
    files: TensorFiles | None = None,
    find_variable: Callable[[str], Variable] | None = None,
) -> Lowered:
    """Return the lowered partition that a text describes, without its graph.

    files: of large tensors that the text only names. find_variable: returns the variable of a name;
    without this function each variable is created, of zeros unless the text marks it uninitialised.
    Runtime instructions have no kernel. Raises TextError naming line and reason.
    """
    return _Parser(files, find_variable).parse(text)


class _Parser:
    """Parse one partition."""

    def __init__(
        self, files: TensorFiles | None, find_variable: Callable[[str], Variable] | None
    ) -> None:
        self.files, self.find_variable = files, find_variable
        self.graph = DataflowGraph()
        self.values: dict[int, Value] = {}
        self.variables: dict[str, Variable] = {}
        self.regions: list[Region] = []
        self.line = 0
        self.lowered: Lowered | None = None
        self.ended = False
        self.selectors: dict[int, Value] = {}  # id(branch) -> the value that selects its case
        self.reader = ValueReader("", 0)

    def parse(self, text: str) -> Lowered:
        """Parse all lines."""
        for self.line, line in statements(text):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            reader = self.reader = ValueReader(line, self.line, files=self.files)
            reader.take("")
            if self.lowered is None:
                self.lowered = self.head()
            elif self.ended:
                reader.fail("nothing follows the fetches")
            else:
                self.statement(self.lowered)
            rest = reader.rest()
            if rest and not rest.startswith("#"):
                reader.fail(f"expected the end of the line, found {rest!r}")
        if self.lowered is None or not self.ended:
            raise TextError(f"line {self.line}: the text ends before 'fetch'")
        if self.regions:
            raise TextError(f"line {self.line}: '{self.regions[-1].construct.node.name}' is open")
        for number in range(len(self.values)):
            if number not in self.values:
                raise TextError(f"value %{number} is not defined, but a larger one is")
        self.lowered.values = [self.values[number] for number in range(len(self.values))]
        return self.lowered

    def head(self) -> Lowered:
        """Parse the first line."""
        self.reader.expect("lowered")
        self.reader.expect("feeds")
        self.reader.expect("=")
        count = self.reader.value()
        is_body, is_shard = self.reader.take("body"), self.reader.take("part")
        return Lowered([], [], [], {}, count, is_body=is_body, is_shard=is_shard)

    def statement(self, lowered: Lowered) -> None:
        """Parse a line after the first."""
        reader = self.reader
        outputs = self.outputs() if reader.text.startswith("%", reader.position) else []
        word = reader.match(WORD, "a statement")[0]
        reader.take("")
        if word in ("fetch", "loop", "test", "repeat", "branch", "case", "join"):
            if outputs:
                reader.fail(f"{word} gives no value")
            if word == "fetch":
                lowered.fetches = self.uses()
                for value in lowered.fetches:
                    value.fetched = True
                self.ended = True
            else:
                lowered.instructions.append(self.marker(word))
        elif word in ("move", "copy"):
            lowered.instructions.append(self.copy(outputs, moves=word == "move"))
        elif word in get_args(Serving):
            lowered.instructions.append(self.instruction(word, outputs))
        elif word in ("const", "feed", "handle", "read", "read_at_end", "view"):
            if len(outputs) != 1 or outputs[0].index in self.values:
                reader.fail(f"{word} defines one new value")
            if outputs[0].storage == "const" and word != "const":
                self.needs_type(outputs[0])
            readers = {
                "const": self.read_const,
                "feed": self.read_feed,
                "handle": self.read_handle,
                "read": self.read_read,
                "read_at_end": self.read_read_at_end,
                "view": self.read_view,
            }
            readers[word](outputs[0])
            self.values[outputs[0].index] = outputs[0]
        else:
            reader.fail(f"{word!r} is no statement")

    # ---- values

    def outputs(self) -> list[Value]:
        """Parse the values in front of "=", which may be new."""
        found = []
        reader = self.reader
        while True:
            number = int(reader.match(_NUMBER, "a value such as %0")[1])
            if reader.take(":"):
                if number in self.values:
                    reader.fail(f"value %{number} is defined twice")
                spec = read_tensor(reader)
                value = Value(number, spec.dtype, spec.shape, "buffer", level=-1)
                if self.word("level="):
                    value.level = reader.value()
                if self.word("from"):
                    value.producer = quoted(reader)
            elif number in self.values:
                value = self.values[number]
            else:  # a constant gets its type from its tensor; any other value is refused
                value = Value(number, dtypes.float32, (), "const")
            found.append(value)
            if not reader.take(","):
                break
        reader.expect("=")
        return found

    def needs_type(self, value: Value) -> NoReturn:
        """Refuse a new value that has no type and is no constant."""
        self.reader.fail(f"value %{value.index} needs a type where it is defined")

    def word(self, token: str) -> bool:
        """Skip a token if the token comes next."""
        self.reader.take("")
        return self.reader.take(token)

    def use(self) -> Value:
        """Parse a value that is already defined."""
        number = int(self.reader.match(_NUMBER, "a value such as %0")[1])
        if number not in self.values:
            self.reader.fail(f"value %{number} is used before its definition")
        return self.values[number]

    def uses(self) -> list[Value]:
        """Parse values up to the end of the line."""
        found = []
        while self.reader.text.startswith("%", self.reader.position):
            found.append(self.use())
            if not self.reader.take(","):
                break
        return found

    def settle(self, value: Value, level: int) -> None:
        """Set a value's sequence, and its level unless already given."""
        value.sequence = self.line
        if value.level < 0:
            value.level = level

    def read_const(self, value: Value) -> None:
        """Parse a constant."""
        value.producer = quoted(self.reader)
        array = self.reader.value()
        value.storage, value.array, value.shape = "const", array, array.shape
        value.dtype = dtypes.as_dtype(array.dtype)

    def read_feed(self, value: Value) -> None:
        """Parse a feed."""
        assert self.lowered is not None
        value.storage, value.feed = "feed", self.reader.value()
        self.reader.take("")
        value.producer = quoted(self.reader)
        self.settle(value, 0)
        self.lowered.feeds[value.feed] = value

    def read_handle(self, value: Value) -> None:
        """Parse a variable."""
        value.storage, value.producer = "handle", quoted(self.reader)
        is_resource, empty = self.word("resource"), self.word("uninitialised")
        name = quoted(self.reader) if self.word("of") else value.producer
        self.settle(value, 0)
        if name not in self.variables:
            if self.find_variable is not None:
                self.variables[name] = self.find_variable(name)
            else:
                made = Variable("localhost", name, value.dtype, value.shape, is_resource)
                if not empty:
                    zeros = np.zeros(value.shape, value.dtype.as_numpy_dtype)
                    made.assign(zeros, take=True)
                self.variables[name] = made
        value.variable = self.variables[name]

    def read_read(self, value: Value, at_end: bool = False) -> None:
        """Parse the value of a variable."""
        handle = self.use()
        self.reader.take("")
        value.storage, value.variable, value.producer = (
            "variable",
            handle.variable,
            quoted(self.reader),
        )
        value.read_at_end = at_end
        self.settle(value, 0 if at_end else self.level)

    def read_read_at_end(self, value: Value) -> None:
        """Parse a variable's value after the last instruction."""
        self.read_read(value, at_end=True)

    def read_view(self, value: Value) -> None:
        """Parse a view."""
        value.base = self.use()
        self.reader.take("")
        value.storage, value.producer = value.base.storage, quoted(self.reader)
        self.settle(value, value.base.level)

    # ---- instructions

    @property
    def level(self) -> int:
        """Return the number of loops around this line."""
        return sum(region.construct.is_loop for region in self.regions)

    def made(self, outputs: list[Value], storage: Any, producer: str) -> list[Value]:
        """Define the new outputs of an instruction."""
        for value in outputs:
            if value.index in self.values:
                continue
            if value.storage == "const":
                self.needs_type(value)
            value.storage = storage
            value.producer = value.producer or producer
            self.settle(value, self.level)
            self.values[value.index] = value
        return outputs

    def placed(self, instruction: Instruction) -> Instruction:
        """Set an instruction's construct, path and sequence."""
        instruction.construct = self.regions[-1].construct if self.regions else None
        instruction.sequence = self.line
        path = expected_path(instruction, self.regions)
        instruction.path = quoted(self.reader) if self.word("in ") else path
        return instruction

    def copy(self, outputs: list[Value], *, moves: bool) -> Instruction:
        """Parse a copy after its first word."""
        name = quoted(self.reader)
        self.reader.take("")
        source = self.use()
        (target,) = self.made(outputs, "buffer", name)
        spec = NodeSpec(name, "DeepCopy", {}, (source.spec,), (target.spec,))
        node = Node(self.graph, name, -1, "DeepCopy", {}, None)
        return self.placed(
            Instruction(node, "copy", [source], [target], spec, copy_out, moves=moves)
        )

    def instruction(self, serving: Any, outputs: list[Value]) -> Instruction:
        """Parse an instruction after its first word."""
        reader = self.reader
        name = quoted(reader)
        reader.take("")
        op = reader.match(WORD, "an op type")[0]
        reader.expect("(")
        inputs: list[Value] = []
        attrs: dict[str, Any] = {}
        while not reader.take(")"):
            if reader.text.startswith("%", reader.position):
                inputs.append(self.use())
            else:
                key = reader.match(KEY, "a value or key=value")[1]
                attrs[key] = reader.value()
            if not reader.take(","):
                reader.expect(")")
                break
        try:
            op_def = definition(op)
            if op_def is not None:
                attrs = {**derived_attrs(op_def, [v.dtype for v in inputs]), **attrs}
            types = signature(op, op_def, attrs, name)
        except OpError as error:
            raise TextError(f"line {self.line}: {error}") from error
        node = Node(self.graph, name, -1, op, attrs, op_def, *types)
        self.made(outputs, "object" if serving == "runtime" else "buffer", name)
        constants = {
            i: value.root.array.reshape(value.shape)
            for i, value in enumerate(inputs)
            if value.root.array is not None
        }
        spec = NodeSpec(
            name,
            op,
            attrs,
            tuple(value.spec for value in inputs),
            tuple(value.spec for value in outputs),
            constants,
        )
        compute = find_reference(op) if serving == "reference" else None
        return self.placed(Instruction(node, serving, inputs, outputs, spec, compute))

    def marker(self, role: Any) -> Instruction:
        """Parse a marker after its first word."""
        reader = self.reader
        inputs: list[Value] = []
        if role in ("loop", "branch"):
            name = quoted(reader)
            reader.take("")
            op = reader.match(WORD, "an op type")[0]
            if registry.has_trait(op, WHILE) != (role == "loop"):
                reader.fail(f"{op} is no {role}")
            node = Node(self.graph, name, -1, op, {}, definition(op))
            parent = self.regions[-1].construct if self.regions else None
            construct = Construct(
                node,
                self.level + (role == "loop"),
                parent,
                registry.has_trait(op, IF),
                sequence=self.line,
            )
            region = begun(construct, self.regions)
        elif not self.regions or self.regions[-1].construct.is_loop != (role in ("test", "repeat")):
            reader.fail(f"{role} stands outside of its loop or branch")
        else:
            region = self.regions[-1]
            construct = region.construct
        if role in ("test", "branch"):
            reader.take("")
            inputs = [self.use()]
        elif role == "case":
            inputs = [self.selectors[id(construct)]]
        if role == "loop":
            construct.changes_variables = self.word("changes variables")
        elif role == "branch":
            self.selectors[id(construct)] = inputs[0]
            construct.cases = 1
        elif role == "case":
            construct.cases += 1
        if role in ("loop", "branch"):
            self.regions.append(region)
        elif role in ("repeat", "join"):
            self.regions.pop()
        else:
            region.pass_marker(role)
        spec = NodeSpec(
            construct.node.name, construct.node.op, {}, tuple(v.spec for v in inputs), ()
        )
        return Instruction(
            construct.node,
            "control",
            inputs,
            [],
            spec,
            construct=construct,
            role=role,
            path=region.path,
            sequence=self.line,
        )


__all__ = ["parse_lowered"]
