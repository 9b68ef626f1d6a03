"""`tfjit.flags`: options of a program's command line; and `tfjit.app.run`.

They work as TensorFlow 1's tf.flags.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


class Error(Exception):
    """Something is wrong with a flag."""


class DuplicateFlagError(Error):
    """A flag is defined twice."""


class IllegalFlagValueError(Error):
    """A value does not fit its flag."""


class _Flag:
    """A defined flag.

    parse: text -> value, raising ValueError. is_bool: the flag needs no value.
    """

    def __init__(
        self,
        name: str,
        default: object,
        help_text: str,
        parse: Callable[[str], Any],
        is_bool: bool = False,
    ) -> None:
        self.name, self.default, self.help, self.parse, self.is_bool = (
            name,
            default,
            help_text,
            parse,
            is_bool,
        )
        self.value = default
        self.is_required = False


class FlagValues:
    """The flags by name, as attributes.

    The first use of one reads the program's command line; calling the object reads another.
    """

    def __init__(self) -> None:
        self.__dict__["_flags"] = {}
        self.__dict__["_parsed"] = False

    def _define(self, flag: _Flag) -> None:
        if flag.name in self._flags:
            raise DuplicateFlagError(f"The flag '{flag.name}' is defined twice.")
        self._flags[flag.name] = flag

    def __call__(self, argv: Sequence[str], known_only: bool = False) -> list[str]:
        """Take the flags out of a command line and return the rest.

        Its first element is the program. Raises Error for an unknown flag, unless known_only;
        IllegalFlagValueError for a value that does not fit, or a required flag that has none.
        """
        rest, words = list(argv[:1]), list(argv[1:])
        while words:
            word = words.pop(0)
            if word == "--":
                rest += words
                break
            name, equals, value = word.lstrip("-").partition("=")
            if not word.startswith("-") or not name:
                rest.append(word)
                continue
            flag = self._flags.get(name)
            if (
                flag is None
                and name.startswith("no")
                and name[2:] in self._flags
                and self._flags[name[2:]].is_bool
                and not equals
            ):
                self._flags[name[2:]].value = False
                continue
            if flag is None:
                if not known_only:
                    raise Error(f"Unknown command line flag '{name}'")
                rest.append(word)
                continue
            if not equals:
                if flag.is_bool:
                    value = "true"
                elif words:
                    value = words.pop(0)
                else:
                    raise IllegalFlagValueError(f"Missing value for flag {word}")
            self._set(flag, value)
        self.__dict__["_parsed"] = True
        for flag in self._flags.values():
            if flag.is_required and flag.value is None:
                raise IllegalFlagValueError(
                    f"Flag --{flag.name} must have a value other than None."
                )
        return rest

    def _set(self, flag: _Flag, text: str) -> None:
        try:
            flag.value = flag.parse(text)
        except ValueError as error:
            raise IllegalFlagValueError(f"flag --{flag.name}={text}: {error}") from None

    def __getattr__(self, name: str) -> Any:
        flags = self.__dict__["_flags"]
        if name not in flags:
            raise AttributeError(name)
        if not self.__dict__["_parsed"]:
            self(sys.argv, known_only=True)
        return flags[name].value

    def __setattr__(self, name: str, value: TensorLike) -> None:
        if name not in self._flags:
            raise AttributeError(f"there is no flag {name!r}")
        self._flags[name].value = value

    def __delattr__(self, name: str) -> None:
        if self._flags.pop(name, None) is None:
            raise AttributeError(name)

    def __contains__(self, name: str) -> bool:
        return name in self._flags

    def __iter__(self) -> Iterator[str]:
        return iter(self._flags)

    def is_parsed(self) -> bool:
        """Return whether a command line was read."""
        return bool(self.__dict__["_parsed"])

    def flag_values_dict(self) -> dict[str, object]:
        """Return a dictionary of name -> value."""
        return {name: flag.value for name, flag in self._flags.items()}

    def main_module_help(self) -> str:
        """Return the help text, a line for each flag."""
        return "\n".join(
            f"  --{flag.name}: {flag.help} (default: {flag.default!r})"
            for flag in self._flags.values()
        )


FLAGS: Final = FlagValues()


def _bool(text: str) -> bool:
    if text.lower() in ("true", "t", "1", "yes", "y"):
        return True
    if text.lower() in ("false", "f", "0", "no", "n"):
        return False
    raise ValueError("Non-boolean argument to boolean flag")


def _bounded(parse: Callable[[str], Any], lower: object, upper: object) -> Callable[[str], Any]:
    def bounded(text: str) -> Any:
        value = parse(text)
        if (lower is not None and value < lower) or (upper is not None and value > upper):
            raise ValueError(f"{text} is not between {lower} and {upper}")
        return value

    return bounded


def _define(flag_values: FlagValues, flag: _Flag, required: bool) -> None:
    """Add a flag. Raises ValueError for a required one with a default."""
    if required and flag.default is not None:
        raise ValueError(
            "If marking a single flag as required, use the required keyword argument with a "
            "default of None."
        )
    flag.is_required = required
    flag_values._define(flag)


def DEFINE_string(
    name: str,
    default: str | None,
    help: str,
    flag_values: FlagValues = FLAGS,
    required: bool = False,
    **args: object,
) -> None:
    """Define a flag of text.

    required: reading a command line without it is an error.
    """
    _define(flag_values, _Flag(name, default, help, str), required)


def DEFINE_integer(
    name: str,
    default: int | None,
    help: str,
    lower_bound: int | None = None,
    upper_bound: int | None = None,
    flag_values: FlagValues = FLAGS,
    required: bool = False,
    **args: object,
) -> None:
    """Define a flag of a whole number, within bounds."""
    _define(
        flag_values,
        _Flag(name, default, help, _bounded(lambda text: int(text, 0), lower_bound, upper_bound)),
        required,
    )


def DEFINE_float(
    name: str,
    default: float | None,
    help: str,
    lower_bound: float | None = None,
    upper_bound: float | None = None,
    flag_values: FlagValues = FLAGS,
    required: bool = False,
    **args: object,
) -> None:
    """Define a flag of a number, within bounds."""
    start = None if default is None else float(default)
    _define(
        flag_values, _Flag(name, start, help, _bounded(float, lower_bound, upper_bound)), required
    )


def DEFINE_boolean(
    name: str,
    default: bool | None,
    help: str,
    flag_values: FlagValues = FLAGS,
    module_name: str | None = None,
    required: bool = False,
    **args: object,
) -> None:
    """Define a flag of yes or no: --name, --noname, --name=false.

    module_name: of the module that has it; help lists all flags alike.
    """
    _define(flag_values, _Flag(name, default, help, _bool, is_bool=True), required)


DEFINE_bool = DEFINE_boolean


def DEFINE_list(
    name: str,
    default: object,
    help: str,
    flag_values: FlagValues = FLAGS,
    required: bool = False,
    **args: object,
) -> None:
    """Define a flag of texts with commas between."""

    def parse(text: str) -> list[str]:
        return [part.strip() for part in text.split(",")] if text else []

    _define(
        flag_values,
        _Flag(name, parse(default) if isinstance(default, str) else default, help, parse),
        required,
    )


def DEFINE_enum(
    name: str,
    default: str | None,
    enum_values: Sequence[str],
    help: str,
    flag_values: FlagValues = FLAGS,
    module_name: str | None = None,
    required: bool = False,
    **args: object,
) -> None:
    """Define a flag of one of several texts.

    module_name: as of `DEFINE_boolean`.
    """

    def parse(text: str) -> str:
        if text not in enum_values:
            raise ValueError(f"value should be one of <{'|'.join(enum_values)}>")
        return text

    _define(flag_values, _Flag(name, default, help, parse), required)


def mark_flag_as_required(flag_name: str, flag_values: FlagValues = FLAGS) -> None:
    """Make reading a command line without this flag an error."""
    flag_values._flags[flag_name].is_required = True


def run(main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None) -> None:
    """Read the flags, call `main` and exit with its result.

    main: of the program's module by default; called with the rest of the command line. --help
    prints the flags; a wrong flag ends the program with code 1.
    """
    words = list(sys.argv if argv is None else argv)
    if any(word in ("--help", "-help", "-h") for word in words[1:]):
        print(f"flags of {words[0]}:\n{FLAGS.main_module_help()}")
        sys.exit(0)
    try:
        rest = FLAGS(words, known_only=True)
    except Error as error:
        print(f"FATAL Flags parsing error: {error}", file=sys.stderr)
        sys.exit(1)
    function = main if main is not None else sys.modules["__main__"].main
    sys.exit(function(rest))
