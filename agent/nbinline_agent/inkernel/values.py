"""Values as bounded text, by type; types are told by the type itself, never by what it claims."""

from __future__ import annotations

import collections
import dataclasses
import inspect
import itertools
import sys
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .limits import Clock, StillRunning, TooSlow, limited
    from .pictures import picture
    from .resolving import NotPlain, Undefined, resolve

LENGTH = 2000
"""Characters of one value."""
ITEMS = 10
"""First items of a container that are shown."""
ITEM_LENGTH = 200
"""Characters of one item."""
COLUMNS = 40
ROWS = 5
DEPTH = 2


class Raised(Exception):
    """A ``__repr__`` failed; its text says how."""


def values(expressions, names, parent=None, images=False, length=LENGTH):
    """Look at several expressions; each gets an entry, whatever happens to the others.

    Returns:
        By expression: ``{"text", "type", "problem", "cut", "images"}``.
    """
    clock = Clock()
    return {each: _value(each, names, parent, images, length, clock) for each in expressions}


def _value(expression, names, parent, images, length, clock):
    state = {"type": "", "step": ""}

    def look():
        value = resolve(expression, names)
        state["type"] = type_name(value)
        state["step"] = "repr "
        text, pictures = rendered(value, images)
        return {"text": text, "images": pictures}

    try:
        found = limited(look, clock.left(), parent)
    except Undefined:
        return _problem("undefined", "not defined in the kernel", state)
    except NotPlain:
        return _problem("not-plain", "only names, attributes and items can be looked at", state)
    except StillRunning:
        return _problem("kernel-busy", "still being computed after 2 seconds", state)
    except TooSlow:
        return _problem("too-slow", "took longer than 2 seconds", state)
    except Raised as error:
        return _problem("raised", f"repr raised {error}", state)
    except BaseException as error:
        return _problem("raised", f"{state['step']}raised {error_line(error)}", state)
    text, cut = shortened(found["text"], length)
    return {
        "text": text,
        "type": state["type"],
        "problem": "",
        "cut": cut,
        "images": found["images"],
    }


def _problem(code, text, state):
    return {"text": text, "type": state["type"], "problem": code, "cut": False, "images": []}


def rendered(value, images=False):
    """A value's text, and its pictures if they are wanted."""
    shown = picture(value, images)
    if shown is not None:
        return shown
    if isinstance(value, str) and type(value).__str__ is str.__str__:
        return str.__str__(value), []
    return described(value), []


def described(value, depth=DEPTH):
    """A value's text by its type."""
    for describe in (_library, _container, _code, _record):
        text = describe(value, depth)
        if text is not None:
            return text
    return represented(value)


def represented(value):
    """What ``repr`` says; an object that says nothing of itself is described by its attributes.

    Raises:
        Raised: Its ``__repr__`` raised, or gave something else than a string.
    """
    if type(value).__repr__ is object.__repr__:
        return _attributes(value)
    try:
        text = repr(value)
    except Exception as error:
        raise Raised(error_line(error)) from None
    return str.__str__(text)


def brief(value, depth):
    """An item inside a container: one line."""
    if isinstance(value, str):
        text = str.__repr__(str.__getitem__(value, slice(0, ITEM_LENGTH + 1)))
        size = str.__len__(value)
        return text if size <= ITEM_LENGTH else f"{text[:ITEM_LENGTH]}… ({size:,} characters)"
    library = _library_brief(value)
    if library is not None:
        return library
    if depth > 0:
        nested = _container(value, depth - 1)
        if nested is not None:
            return nested if len(nested) <= ITEM_LENGTH else f"<{nested.splitlines()[0][:80]}>"
    elif _sized(value):
        return f"<{type_name(value)} of {_count(_sized(value)[0], 'item')}>"
    try:
        line = " ".join(represented(value).split())
    except Raised as error:
        return f"<{type_name(value)}: repr raised {error}>"
    return line if len(line) <= ITEM_LENGTH else f"{line[:ITEM_LENGTH]}…"


# Libraries


def _of(value, module, *classes):
    """Whether the value's own type descends from one of the classes of a loaded library."""
    loaded = sys.modules.get(module)
    known = [getattr(loaded, name, None) for name in classes] if loaded is not None else []
    return any(base in known for base in type(value).__mro__ if base is not object)


def _library(value, depth):
    if _of(value, "pandas", "DataFrame"):
        return _pandas_frame(value)
    if _of(value, "pandas", "Series", "Index"):
        return _pandas_column(value)
    if _of(value, "polars", "DataFrame"):
        return _polars_frame(value)
    if _of(value, "polars", "LazyFrame"):
        return "polars LazyFrame, not computed"
    if _of(value, "polars", "Series"):
        head = ", ".join(brief(item, 0) for item in value.head(ITEMS).to_list())
        return f"polars Series {value.name!r}, {value.len():,} × {value.dtype}: [{head}]"
    if _of(value, "numpy", "ndarray"):
        return _array(value)
    return None


def _library_brief(value):
    if _of(value, "pandas", "DataFrame") or _of(value, "polars", "DataFrame"):
        rows, columns = value.shape
        return f"<{type_name(value)} {rows:,} × {columns:,}>"
    if _of(value, "pandas", "Series", "Index") or _of(value, "polars", "Series"):
        return f"<{type_name(value)} {len(value):,} × {value.dtype}>"
    if _of(value, "numpy", "ndarray") and value.size > 6:
        return f"<ndarray {_shape(value.shape)} {value.dtype}>"
    return None


def _pandas_frame(frame):
    rows, columns = frame.shape
    kinds = frame.dtypes
    shown = [
        f"  {_line(frame.columns[place])}: {kinds.iloc[place]}"
        for place in range(min(columns, COLUMNS))
    ]
    if columns > COLUMNS:
        shown.append(f"  … {columns - COLUMNS:,} more columns")
    index = f"{type(frame.index).__name__}, {frame.index.dtype}"
    if frame.index.name is not None:
        index = f"{_line(frame.index.name)}: {index}"
    head = frame.iloc[:ROWS, :COLUMNS].to_string(max_colwidth=40, max_cols=COLUMNS)
    lines = [
        f"pandas DataFrame, {_count(rows, 'row')} × {_count(columns, 'column')}; index {index}",
        *shown,
        f"First {_count(min(rows, ROWS), 'row')}:",
        head,
    ]
    return "\n".join(lines)


def _pandas_column(column):
    kind = type(column).__name__
    name = f" {_line(column.name)}" if column.name is not None else ""
    head = column[: 2 * ITEMS]
    text = f"pandas {kind}{name}, {len(column):,} × {column.dtype}"
    if kind == "Series":
        return f"{text}; first values:\n{head.to_string()}"
    return f"{text}; first values: {', '.join(brief(item, 0) for item in head.tolist())}"


def _polars_frame(frame):
    rows, columns = frame.shape
    schema = list(itertools.islice(frame.schema.items(), COLUMNS))
    shown = [f"  {_line(name)}: {kind}" for name, kind in schema]
    if columns > COLUMNS:
        shown.append(f"  … {columns - COLUMNS:,} more columns")
    head = [
        " | ".join(brief(item, 0) for item in row) for row in frame[:, :COLUMNS].head(ROWS).rows()
    ]
    lines = [
        f"polars DataFrame, {_count(rows, 'row')} × {_count(columns, 'column')}",
        *shown,
        f"First {_count(min(rows, ROWS), 'row')}:",
        " | ".join(_line(name) for name, _ in schema),
        *head,
    ]
    return "\n".join(lines)


def _array(array):
    numpy = sys.modules["numpy"]
    text = f"numpy array, shape {_shape(array.shape)}, {array.dtype}"
    if array.dtype.kind in "OV":
        items = ", ".join(brief(item, 0) for item in itertools.islice(array.flat, ITEMS))
        return f"{text}; first items: [{items}]"
    return f"{text}:\n" + numpy.array2string(array, threshold=60, edgeitems=3, precision=6)


def _shape(shape):
    return "(" + ", ".join(f"{side:,}" for side in shape) + ("," if len(shape) == 1 else "") + ")"


# Containers

_BRACKETS = {list: "[]", tuple: "()", dict: "{}", set: "{}"}
_SEQUENCES = (list, tuple, set, frozenset, collections.deque, range)


def _sized(value):
    """Length and iterator of a plain container, by its base class's own methods."""
    for base in (dict, *_SEQUENCES):
        if isinstance(value, base) and base in type(value).__mro__:
            return base.__len__(value), base.__iter__(value), base
    return None


def _container(value, depth):
    known = _sized(value)
    if known is None or not _plain_repr(type(value)):
        return None
    size, items, base = known
    first = list(itertools.islice(items, ITEMS))
    if base is dict:
        shown = [f"{brief(key, 0)}: {brief(dict.get(value, key), depth)}" for key in first]
    elif hasattr(type(value), "_fields") and base is tuple:
        names = itertools.chain(type(value)._fields, itertools.repeat("?"))
        shown = [f"{name}={brief(item, depth)}" for name, item in zip(names, first)]
    else:
        shown = [brief(item, depth) for item in first]
    left, right = _BRACKETS.get(base, ("", ""))
    inner = f"{left}{', '.join(shown)}{right}"
    if depth < DEPTH and size == len(first) and type(value) is base and left:
        return inner
    head = f"{type_name(value)} of {_count(size, 'item')}"
    text = f"{head}: {inner or ', '.join(shown)}"
    if len(text) > ITEM_LENGTH:
        text = "\n".join((f"{head}:", *(f"  {line}" for line in shown)))
    if size > len(first):
        text += f"{chr(10) if chr(10) in text else ''}  … {size - len(first):,} more"
    return text


def _plain_repr(kind):
    """Whether a container class shows itself as the standard library does."""
    own = kind.__repr__
    return own in _CONTAINER_REPRS or getattr(own, "__module__", "") == "collections"


_CONTAINER_REPRS = tuple(
    kind.__repr__
    for kind in (
        dict,
        collections.defaultdict,
        collections.OrderedDict,
        collections.Counter,
        *_SEQUENCES,
    )
)


# Code and records


def _code(value, depth):
    if isinstance(value, types.ModuleType):
        version = vars(value).get("__version__")
        text = f"module {value.__name__}"
        return f"{text} {version}" if isinstance(version, str) else text
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)):
        kind = "class" if isinstance(value, type) else "function"
        name = getattr(value, "__qualname__", getattr(value, "__name__", "?"))
        text = f"{kind} {name}{signature_text(value)}"
        line = (inspect.getdoc(value) or "").strip().split("\n")[0]
        return f"{text}\n{line}" if line and kind == "function" else text
    if isinstance(value, types.GeneratorType):
        name = value.__qualname__
        return f"generator {name}, {inspect.getgeneratorstate(value)[4:].lower()}; not consumed"
    return None


def signature_text(value):
    """Its signature, or an ellipsis in brackets if it does not tell."""
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(…)"


def _record(value, depth):
    """A dataclass whose ``__repr__`` is the generated one."""
    kind = type(value)
    if "__dataclass_fields__" not in kind.__dict__ or not dataclasses.is_dataclass(kind):
        return None
    own = kind.__dict__.get("__repr__")
    if own is not None and not hasattr(own, "__wrapped__"):
        return None
    lines = [f"{kind.__qualname__} (dataclass):"]
    for field in itertools.islice(dataclasses.fields(kind), 30):
        try:
            shown = brief(object.__getattribute__(value, field.name), depth - 1)
        except Exception as error:
            shown = f"<raised {error_line(error)}>"
        lines.append(f"  {field.name} = {shown}")
    return "\n".join(lines)


def _attributes(value):
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        held = {}
    names = [name for name in held if isinstance(name, str) and not name.startswith("_")]
    lines = [f"{type_name(value)} object"]
    lines += [f"  {name}: {type_name(held[name])}" for name in names[:30]]
    if len(names) > 30:
        lines.append(f"  … {len(names) - 30:,} more attributes")
    return "\n".join(lines)


# Words


def type_name(value):
    """The name of a value's own type, with its module unless that says nothing."""
    kind = type(value)
    module = type.__getattribute__(kind, "__module__")
    name = type.__getattribute__(kind, "__qualname__")
    return name if module in ("builtins", "__main__") else f"{module}.{name}"


def error_line(error):
    """An exception as its last line would say, bounded; its own ``__str__`` may fail too."""
    try:
        text = str(error)
    except Exception:
        text = ""
    name = type(error).__name__
    return f"{name}: {' '.join(text[:300].split())}" if text else name


def shortened(text, length):
    """Head and tail of a text, with what was left out in between; and whether it was cut."""
    if len(text) <= length:
        return text, False
    tail = length // 5
    head = length - tail - 60
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out:,} characters left out …]\n{text[-tail:]}", True


def _count(number, noun):
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _line(value):
    text = value if isinstance(value, str) else represented(value)
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:60]}…"
