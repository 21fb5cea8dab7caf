"""A person's view of one notebook: a browser tab, and what its document and page hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page

from tests.browser.lab import Lab

DEADLINE = 20_000
"""Milliseconds that anything visible may take on a busy machine of two cores."""

SCRIPT = """
window.nbt = {
  panel() {
    const widget = window.jupyterapp?.shell?.currentWidget;
    return widget?.content?.model?.sharedModel?.cells && widget.content.widgets ? widget : null;
  },
  shared() { return nbt.panel()?.content.model.sharedModel ?? null; },
  cells() {
    return nbt.shared().cells.map(cell => ({
      id: cell.getId(), type: cell.cell_type, source: cell.getSource(),
      mark: cell.getMetadata('nbinlineai') ?? null,
      outputs: cell.cell_type === 'code' ? cell.getOutputs() : null,
      count: cell.cell_type === 'code' ? cell.execution_count : null
    }));
  },
  cell(id) { return nbt.cells().find(cell => cell.id === id) ?? null; },
  answer(promptId) {
    return nbt.cells().find(cell => cell.mark?.promptCellId === promptId) ?? null;
  },
  widget(id) { return nbt.panel().content.widgets.find(each => each.model.id === id) ?? null; },
  rendered(id) {
    const widget = nbt.widget(id);
    const node = widget?.rendered ? widget.renderer.node : null;
    return node?.checkVisibility() ? node.innerText : '';
  },
  agents() { return nbt.states().filter(state => state.user?.agent === true); },
  states() { return [...nbt.shared().awareness.getStates().values()]; }
};
"""


class NotebookPage:
    """One tab of one person with one notebook open."""

    def __init__(self, page: Page, lab: Lab, path: str) -> None:
        self.page = page
        self.lab = lab
        self.path = path

    def open(self, workspace: str | None = None) -> NotebookPage:
        """Open the notebook and wait until its shared document is there."""
        if workspace is None and self.page.url.startswith(f"{self.lab.url}/lab"):
            self.command("docmanager:open", path=self.path, factory="Notebook")
        else:
            self.page.goto(self.lab.lab_url(self.path, workspace), wait_until="domcontentloaded")
        self.wait_open()
        return self

    def reload(self) -> None:
        """Reload the tab as a person does."""
        self.page.reload(wait_until="domcontentloaded")
        self.wait_open()

    def close(self) -> None:
        """Leave no notebook and no dialog open, and lose nothing: the document is shared."""
        for dialog in self.page.locator(".jp-Dialog").all():
            dialog.press("Escape")
        self.page.evaluate(
            "() => [...window.jupyterapp.shell.widgets('main')].forEach(each => each.dispose())"
        )
        self.wait("() => nbt.panel() === null")

    def wait_open(self) -> None:
        """Wait until the notebook is shown and its document is synchronised.

        JupyterLab takes the focus once more when the session is ready; keys pressed before go
        astray.
        """
        self.wait(
            """path => window.nbt?.panel()?.context.localPath === path
               && nbt.shared().cells.length > 0 && nbt.panel().context.isReady
               && nbt.panel().content.widgets.some(each => each.node.checkVisibility())
               && nbt.panel().sessionContext.isReady""",
            self.path,
            timeout=60_000,
        )

    def wait(self, condition: str, arg: Any = None, timeout: float = DEADLINE) -> Any:
        """Wait until a JavaScript condition holds; its value."""
        handle = self.page.wait_for_function(condition, arg=arg, timeout=timeout, polling=20)
        return handle.json_value()

    # -- the document -----------------------------------------------------------------------

    def cells(self) -> list[dict[str, Any]]:
        """All cells of the shared document."""
        cells: list[dict[str, Any]] = self.page.evaluate("() => nbt.cells()")
        return cells

    def cell(self, cell_id: str) -> dict[str, Any]:
        """One cell of the shared document."""
        found: dict[str, Any] | None = self.page.evaluate("id => nbt.cell(id)", cell_id)
        assert found is not None, f"no cell {cell_id}"
        return found

    def answer(self, prompt_id: str) -> dict[str, Any]:
        """The answer to a question; waits until there is one."""
        self.wait("id => nbt.answer(id) !== null", prompt_id)
        found: dict[str, Any] = self.page.evaluate("id => nbt.answer(id)", prompt_id)
        return found

    def wait_status(self, prompt_id: str, status: str, timeout: float = DEADLINE) -> dict[str, Any]:
        """Wait until the answer's mark says this; the answer."""
        self.wait(
            "([id, status]) => nbt.answer(id)?.mark.status === status",
            [prompt_id, status],
            timeout,
        )
        return self.answer(prompt_id)

    def wait_text(self, prompt_id: str, length: int) -> str:
        """Wait until the answer in the document has this many characters at least."""
        self.wait("([id, n]) => (nbt.answer(id)?.source.length ?? 0) >= n", [prompt_id, length])
        source: str = self.answer(prompt_id)["source"]
        return source

    # -- what is seen -----------------------------------------------------------------------

    def node(self, cell_id: str) -> Locator:
        """The cell in the page."""
        place = self.page.evaluate(
            "id => nbt.panel().content.widgets.findIndex(each => each.model.id === id)", cell_id
        )
        assert place >= 0, f"no cell {cell_id}"
        return self.page.locator(
            f".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell[data-windowed-list-index='{place}']"
        )

    def rendered(self, cell_id: str) -> str:
        """The rendered Markdown that a person sees in the cell."""
        shown: str = self.page.evaluate("id => nbt.rendered(id)", cell_id)
        return shown

    def bar(self, cell_id: str) -> Locator:
        """The question's header or the answer's badge."""
        return self.node(cell_id).locator(".nbinline-CellBar")

    def announced(self) -> list[str]:
        """What screen readers were told since :meth:`listen`."""
        said: list[str] = self.page.evaluate("() => window.nbtSaid ?? []")
        return said

    def listen(self) -> None:
        """Keep what is put into live regions of ours from now on."""
        self.page.evaluate(
            """() => {
              const said = window.nbtSaid = [];
              const live = document.querySelectorAll('[class*=nbinline][aria-live]');
              for (const node of live) {
                new MutationObserver(() => said.push(node.textContent))
                  .observe(node, {childList: true, characterData: true, subtree: true});
              }
            }"""
        )

    # -- hands ------------------------------------------------------------------------------

    def select(self, cell_id: str) -> None:
        """Make a cell the active one, in command mode, with the keyboard's focus."""
        self.page.evaluate(
            """id => {
              const notebook = nbt.panel().content;
              notebook.activeCellIndex = notebook.widgets.findIndex(w => w.model.id === id);
              notebook.deselectAll();
              notebook.mode = 'command';
            }""",
            cell_id,
        )
        self.wait(
            """id => {
              const notebook = nbt.panel().content;
              const cell = notebook.activeCell;
              if (cell?.model.id === id && cell.node.contains(document.activeElement)) return true;
              notebook.activate();
              return false;
            }""",
            cell_id,
        )

    def press(self, keys: str) -> None:
        """Press keys on whatever has the focus."""
        self.page.keyboard.press(keys)

    def run(self, cell_id: str, keys: str = "Control+Enter") -> None:
        """Run a cell with the keyboard."""
        self.select(cell_id)
        self.press(keys)

    def edit(self, cell_id: str, offset: int) -> None:
        """Open a cell's editor and put the caret at a place."""
        self.select(cell_id)
        self.page.evaluate(
            """([id, offset]) => {
              const notebook = nbt.panel().content;
              notebook.mode = 'edit';
              const editor = notebook.activeCell.editor;
              const end = editor.model.sharedModel.getSource().length;
              editor.setCursorPosition(editor.getPositionAt(Math.min(offset, end)));
              editor.focus();
            }""",
            [cell_id, offset],
        )
        self.wait("() => nbt.panel().content.activeCell.editor.hasFocus()")

    def command(self, name: str, **args: Any) -> None:
        """Run a command of JupyterLab, and do not wait for its end."""
        self.page.evaluate(
            "([name, args]) => void window.jupyterapp.commands.execute(name, args)", [name, args]
        )

    def until(self, condition: Callable[[], bool], timeout: float = DEADLINE) -> None:
        """Wait for something outside the page, without standing in the page's way."""
        waited = 0.0
        while not condition():
            assert waited < timeout, "it did not come about in time"
            self.page.wait_for_timeout(50)
            waited += 50
