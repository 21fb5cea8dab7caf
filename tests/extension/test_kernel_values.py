"""Looking into a real kernel: values by type, bad ones apart, and no trace of having looked."""

import io
from typing import Any

import anyio
import pytest
from PIL import Image as Picture

from nbinline_agent.kernel import LiveValue
from nbinline_rtc.kernels import NotebookKernel
from tests.extension.kernels import Kernel, kernel_of, run

LIMIT = 2_000

OBJECTS = """
import collections, dataclasses, datetime, decimal, math
number, text, nothing = 41, 'first\\nsecond "quoted"', None
long_text = 'a' * 5000 + 'the end'
numbers = list(range(100_000))
nested = {'xs': [1, 2], 'deep': {'a': {'b': {'c': [0] * 50}}}, 3: (1, 2)}
Point = collections.namedtuple('Point', 'x y')
point = Point(1, 2)
counter = collections.Counter('mississippi')
moment = datetime.datetime(2026, 1, 2)

@dataclasses.dataclass
class Config:
    rate: float
    names: list

config = Config(0.5, ['a', 'b'])

class Plain:
    def __init__(self):
        self.size, self.label, self._hidden = 3, 'x', 1

plain = Plain()

def squares(n: int = 3):
    '''Squares below n.

    More.'''
    for i in range(n):
        yield i * i

generator = squares()
next(generator)
"""

LIBRARIES = """
import numpy, pandas, polars
frame = pandas.DataFrame({'city': ['Bern', 'Genf', None] * 50, 'population': range(150)})
frame.index.name = 'id'
wide = pandas.DataFrame({f'c{i}': [i] for i in range(300)})
column = frame['city']
index = pandas.date_range('2026-01-01', periods=400)
grouped = pandas.DataFrame({('a', 'x'): [1], ('b', 'y'): [2]})
fast = polars.DataFrame({'city': ['Bern', 'Genf'], 'population': [1, 2]})
lazy = fast.lazy()
fast_column = fast['city']
array = numpy.arange(12.0).reshape(3, 4)
big = numpy.zeros((1000, 1000))
objects = numpy.array([{'a': 1}, None], dtype=object)
scalar = numpy.float32(1.5)
"""

PICTURES = """
import matplotlib
matplotlib.use('agg')
import matplotlib.pyplot as pyplot
from PIL import Image
figure, axes = pyplot.subplots(figsize=(40, 20), dpi=200)
axes.plot([1, 2, 3])
axes.set_title('Growth')
image = Image.new('RGB', (4000, 1000), 'red')
small = Image.new('CMYK', (10, 10))
"""

BAD = """
import time
class Raising:
    def __repr__(self): raise ValueError('no repr')
class Endless:
    def __repr__(self):
        while True: pass
class Stubborn:
    def __repr__(self):
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                pass
class Asleep:
    def __repr__(self): time.sleep(30)
class Huge:
    def __repr__(self): return 'x' * 50_000_000
class Lying:
    __module__ = 'pandas.core.frame'
    shape = property(lambda self: 1 / 0)
    @property
    def __class__(self): return dict
    def __len__(self): raise SystemExit
    def __getattr__(self, name): return self
    def __repr__(self): return 7
class LongList(list):
    def __len__(self): return 10 ** 12
    def __iter__(self): raise KeyboardInterrupt
class Deep:
    def __repr__(self): return repr(self)
class Leaving:
    def __repr__(self): raise SystemExit('bye')
class Printing:
    def __repr__(self):
        print('PRINTED BY REPR')
        return 'printing'
class Gate:
    @property
    def door(self): raise PermissionError('closed')
    @property
    def slow(self): time.sleep(30)
raising, endless, stubborn, asleep, huge = Raising(), Endless(), Stubborn(), Asleep(), Huge()
lying, long_list, deep, leaving = Lying(), LongList([1, 2]), Deep(), Leaving()
printing, gate, hidden_bomb = Printing(), Gate(), [Raising()]
surrogate = 'a\\ud800b'
"""


@pytest.fixture
def kernel(jp_serverapp: Any) -> Kernel:
    """A running kernel."""
    return kernel_of(jp_serverapp)


async def looked(python: NotebookKernel, *names: str, images: bool = False) -> dict[str, LiveValue]:
    return dict(await python.inspect(names, images=images))


async def test_values_of_plain_types(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, OBJECTS)
        names = "number text nothing long_text numbers nested point counter moment config plain"
        found = await looked(python, *names.split(), "squares", "generator", "math", "Config")
        assert {name for name, value in found.items() if value.problem} == set()
        texts = {name: value.text for name, value in found.items()}
        assert texts["number"] == "41"
        assert texts["text"] == 'first\nsecond "quoted"'
        assert texts["nothing"] == "None"
        assert found["long_text"].cut
        assert len(texts["long_text"]) <= LIMIT
        assert texts["long_text"].endswith("the end")
        assert "characters left out" in texts["long_text"]
        assert "list of 100,000 items" in texts["numbers"]
        assert "0, 1, 2" in texts["numbers"]
        assert "99,990 more" in texts["numbers"]
        assert "'xs': [1, 2]" in texts["nested"]
        assert "Point of 2 items" in texts["point"]
        assert "x=1, y=2" in texts["point"]
        assert "Counter of 4 items" in texts["counter"]
        assert texts["moment"] == "datetime.datetime(2026, 1, 2, 0, 0)"
        assert "rate = 0.5" in texts["config"]
        assert "names = ['a', 'b']" in texts["config"]
        assert "size: int" in texts["plain"]
        assert "_hidden" not in texts["plain"]
        assert texts["squares"] == "function squares(n: int = 3)\nSquares below n."
        assert "suspended" in texts["generator"]
        assert texts["math"] == "module math"
        assert texts["Config"] == "class Config(rate: float, names: list) -> None"
        # The generator was not consumed by looking at it.
        assert (await run(python, "print(next(generator))")).text() == "1\n"


async def test_attributes_and_items(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, OBJECTS)
        found = await looked(
            python,
            "nested['xs'][-1]",
            "numbers[5:8]",
            "config.names[0]",
            "nested[3]",
            "numbers[10**9]",
            "numbers[200000]",
            "missing.x",
            "print('x')",
            "numbers[number]",
            "config.nothing",
        )
        texts = [value.text for value in found.values()]
        assert texts[:4] == ["2", "list of 3 items: [5, 6, 7]", "a", "tuple of 2 items: (1, 2)"]
        problems = [value.problem for value in found.values()]
        assert problems[4:] == [
            "not-plain",
            "raised",
            "undefined",
            "not-plain",
            "not-plain",
            "raised",
        ]
        assert "IndexError" in found["numbers[200000]"].text


async def test_values_of_libraries(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, LIBRARIES)
        names = "frame wide column index grouped fast lazy fast_column array big objects scalar"
        found = await looked(python, *names.split(), "frame.dtypes")
        assert {name: v.text for name, v in found.items() if v.problem} == {}
        assert all(len(value.text) <= LIMIT for value in found.values())
        texts = {name: value.text for name, value in found.items()}
        assert texts["frame"].startswith("pandas DataFrame, 150 rows × 2 columns; index id:")
        assert "  population: int64" in texts["frame"]
        assert "Genf" in texts["frame"]
        assert "260 more columns" in texts["wide"]
        assert "pandas Series city, 150 ×" in texts["column"]
        assert "400 × datetime64" in texts["index"]
        assert "1 row × 2 columns" in texts["grouped"]
        assert "polars DataFrame, 2 rows × 2 columns" in texts["fast"]
        assert "population: Int64" in texts["fast"]
        assert "'Bern' | 1" in texts["fast"]
        assert texts["lazy"] == "polars LazyFrame, not computed"
        assert "polars Series 'city', 2 × String" in texts["fast_column"]
        assert texts["array"].startswith("numpy array, shape (3, 4), float64:")
        assert "shape (1,000, 1,000), float64" in texts["big"]
        assert "first items" in texts["objects"]
        assert texts["scalar"] == "np.float32(1.5)"
        assert "population" in texts["frame.dtypes"]


async def test_figures_and_images_as_pictures(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, PICTURES)
        found = await looked(python, "figure", "axes", "image", "small", images=True)
        assert {name for name, value in found.items() if value.problem} == set()
        assert "titled 'Growth'" in found["figure"].text
        assert "4000×1000 pixels, mode RGB" in found["image"].text
        for name, value in found.items():
            [shown] = value.images
            with Picture.open(io.BytesIO(shown.data)) as picture:
                assert max(picture.size) <= 1_568, name
                picture.load()
        without = await looked(python, "figure", "image")
        assert [value.images for value in without.values()] == [(), ()]
        assert all(value.text for value in without.values())
        # Looking drew nothing in the kernel and closed no figure.
        printed = (await run(python, "print(pyplot.get_fignums(), figure.get_dpi())")).text()
        assert printed == "[1] 200\n"


async def test_bad_objects_do_not_spoil_the_others(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, BAD)
        names = ["raising", "huge", "lying", "long_list", "deep", "leaving", "hidden_bomb"]
        found = await looked(python, *names, "gate.door", "surrogate", "printing")
        assert found["raising"].problem == "raised"
        assert found["raising"].text == "repr raised ValueError: no repr"
        assert found["huge"].cut
        assert len(found["huge"].text) <= LIMIT
        assert found["lying"].problem == "raised"
        assert "TypeError" in found["lying"].text
        assert found["long_list"].text.startswith("LongList of 2 items")
        assert found["deep"].problem == "raised"
        assert "RecursionError" in found["deep"].text
        assert found["leaving"].text == "repr raised SystemExit: bye"
        assert "repr raised ValueError" in found["hidden_bomb"].text
        assert not found["hidden_bomb"].problem
        assert found["gate.door"].text == "raised PermissionError: closed"
        assert found["surrogate"].text == "a\ufffdb"
        assert found["printing"].text == "printing"
        assert (await run(python, "print(1 + 1)")).text() == "2\n"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("endless", "too-slow"),
        ("stubborn", "too-slow"),
        ("asleep", "kernel-busy"),
        ("gate.slow", "kernel-busy"),
    ],
)
async def test_endless_objects_end_after_two_seconds(
    kernel: Kernel, name: str, problem: str
) -> None:
    async with kernel() as python:
        await run(python, BAD + "x = 1")
        found = await looked(python, "x", name, "x.real")
        assert found[name].problem == problem
        assert [found["x"].text, found["x.real"].text] == ["1", "1"]
        # The kernel is as it was: it runs cells, and none was interrupted.
        assert (await run(python, "print(x)")).text() == "1\n"


TRACES = """
import sys, threading
state = dict(
    names=sorted(n for n in globals() if n not in before['names']),
    ours=[n for n in sys.modules if 'nbinline' in n],
    out=sorted(Out), last=(_, __, ___), count=get_ipython().execution_count,
    history=len(get_ipython().history_manager.input_hist_raw),
    input=input.__qualname__, stdin=get_ipython().kernel._allow_stdin,
    hooks=[repr(f) for f in get_ipython().events.callbacks['post_execute']],
    stdout=sys.stdout.write.__qualname__,
    threads=[t.name for t in threading.enumerate() if 'nbinline' in t.name],
    printed='PRINTED' in str(get_ipython().history_manager.outputs),
)
"""


async def test_looking_leaves_no_trace(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, BAD + "import time; before = {'names': set()}")
        await run(python, "'remembered'")
        await run(python, "before['names'] = {*globals(), 'state', '_i4', '_i5', '_i6', '_i7'}")
        await run(python, f"{TRACES}\nfirst = state")
        await looked(python, "printing", "raising", "nowhere", "before")
        await python.functions(["print", "nowhere"])
        await python.ask("variables", {})
        told = await run(python, f"{TRACES}\nsecond = state\nprint(first)\nprint(second)")
        first, second = map(eval, told.text().splitlines())
        assert second.pop("count") == first.pop("count") + 1
        assert second.pop("history") == first.pop("history") + 1
        second["names"].remove("first")
        assert second == first


async def test_a_busy_kernel_is_looked_into_beside_its_cell(kernel: Kernel) -> None:
    """Also when it was never looked into before it became busy."""
    async with kernel() as python:
        await run(python, BAD + SIGNAL + "x = 1")
        busy = """
import matplotlib.pyplot as pyplot
figure = pyplot.figure(figsize=(1, 1))
pyplot.plot([1, 2])
began, x = True, 2
until = time.time() + 20
while not globals().get('seen') and time.time() < until:
    time.sleep(0.05)
print('figures', pyplot.get_fignums())
try:
    input('?')
except Exception as error:
    print(type(error).__name__)
"""
        outputs: dict[str, Any] = {}

        async def cell() -> None:
            outputs["cell"] = await run(python, busy)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cell)
            with anyio.fail_after(30):
                while (found := await looked(python, "began", "x"))["x"].text != "2":  # noqa: ASYNC110
                    await anyio.sleep(0.05)
            assert found["began"].text == "True"
            assert (await python.state()).status == "busy"
            looks = await looked(python, "printing", "raising")
            assert looks["printing"].text == "printing"
            assert (await python.state()).status == "busy"
            # A way to let the cell end that does not wait behind it.
            await run_beside(python, "seen")
        cell_outputs = outputs["cell"]
        assert cell_outputs.text() == "figures [1]\nStdinNotImplementedError\n"
        assert [each["type"] for each in cell_outputs if each["type"] == "display_data"] == [
            "display_data"
        ]


SIGNAL = """
class Signal:
    @property
    def seen(self): globals()['seen'] = True
signal = Signal()
"""


async def run_beside(python: NotebookKernel, name: str) -> None:
    """Set a name while the cell runs: looking at an attribute may have effects of its own."""
    await looked(python, f"signal.{name}")
