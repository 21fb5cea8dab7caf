"""Tools for AI prompts, as people use them in notebooks.

Naming a tool with an ampersand in a note, as in &`view_file`, offers it to the model; nothing needs
to be imported for that. What is imported here can also be called in one's own kernel: files,
searches, web pages and live values. Tools of the live notebook say that they are the agent's.

    from nbinline_rtc.tools import insert_tools
    insert_tools(group="files")
"""

from __future__ import annotations

from nbinline_agent.tools.declarations import executing, files, inspecting, notebooks, web

from .calling import callable_here
from .declaring import TOOL_GROUPS, tool_catalog, tools_markdown
from .notes import Receipt, insert_tools

search_kernel_names = callable_here(inspecting.search_kernel_names)
inspect_python = callable_here(inspecting.inspect_python)
show_doc = callable_here(inspecting.show_doc)
api_names = callable_here(inspecting.api_names)
search_docs = callable_here(inspecting.search_docs)
inspect_value = callable_here(inspecting.inspect_value)
search_value = callable_here(inspecting.search_value)
source_files = callable_here(inspecting.source_files)
source_doc = callable_here(inspecting.source_doc)
list_skills = callable_here(inspecting.list_skills)
read_skill = callable_here(inspecting.read_skill)
trace_function = callable_here(executing.trace_function)
run_python = callable_here(executing.run_python)
run_shell = callable_here(executing.run_shell)
tmux_sessions = callable_here(executing.tmux_sessions)
tmux_read = callable_here(executing.tmux_read)
path_info = callable_here(files.path_info)
list_files = callable_here(files.list_files)
view_file = callable_here(files.view_file)
view_file_hashes = callable_here(files.view_file_hashes)
create_file = callable_here(files.create_file)
file_str_replace = callable_here(files.file_str_replace)
file_strs_replace = callable_here(files.file_strs_replace)
file_insert_line = callable_here(files.file_insert_line)
file_replace_lines = callable_here(files.file_replace_lines)
file_replace_checked = callable_here(files.file_replace_checked)
search_files = callable_here(files.search_files)
document_outline = callable_here(files.document_outline)
read_document_section = callable_here(files.read_document_section)
search_notebooks = callable_here(notebooks.search_notebooks)
notebook_outline = callable_here(notebooks.notebook_outline)
list_notebooks = callable_here(notebooks.list_notebooks)
find_notebook_cells = callable_here(notebooks.find_notebook_cells)
read_notebook_cell = callable_here(notebooks.read_notebook_cell)
list_cells = callable_here(notebooks.list_cells)
read_cell = callable_here(notebooks.read_cell)
find_cells = callable_here(notebooks.find_cells)
insert_markdown = callable_here(notebooks.insert_markdown)
insert_code = callable_here(notebooks.insert_code)
replace_cell = callable_here(notebooks.replace_cell)
cell_str_replace = callable_here(notebooks.cell_str_replace)
cell_insert_line = callable_here(notebooks.cell_insert_line)
cell_replace_lines = callable_here(notebooks.cell_replace_lines)
delete_cell = callable_here(notebooks.delete_cell)
move_cell = callable_here(notebooks.move_cell)
copy_cell = callable_here(notebooks.copy_cell)
split_cell = callable_here(notebooks.split_cell)
merge_cells = callable_here(notebooks.merge_cells)
read_url = callable_here(web.read_url)
read_url_section = callable_here(web.read_url_section)
url_to_note = callable_here(web.url_to_note)

__all__ = [
    "Receipt",
    "TOOL_GROUPS",
    "api_names",
    "cell_insert_line",
    "cell_replace_lines",
    "cell_str_replace",
    "copy_cell",
    "create_file",
    "delete_cell",
    "document_outline",
    "file_insert_line",
    "file_replace_checked",
    "file_replace_lines",
    "file_str_replace",
    "file_strs_replace",
    "find_cells",
    "find_notebook_cells",
    "insert_code",
    "insert_markdown",
    "insert_tools",
    "inspect_python",
    "inspect_value",
    "list_cells",
    "list_files",
    "list_notebooks",
    "list_skills",
    "merge_cells",
    "move_cell",
    "notebook_outline",
    "path_info",
    "read_cell",
    "read_document_section",
    "read_notebook_cell",
    "read_skill",
    "read_url",
    "read_url_section",
    "replace_cell",
    "run_python",
    "run_shell",
    "search_docs",
    "search_files",
    "search_kernel_names",
    "search_notebooks",
    "search_value",
    "show_doc",
    "source_doc",
    "source_files",
    "split_cell",
    "tmux_read",
    "tmux_sessions",
    "tool_catalog",
    "tools_markdown",
    "trace_function",
    "url_to_note",
    "view_file",
    "view_file_hashes",
]
