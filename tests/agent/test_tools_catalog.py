"""The 51 tools that existing notes name: signatures, defaults and groups as they always were."""

import inspect

import pytest

from nbinline_agent.tools.catalog import DECLARED, GROUPS, description
from nbinline_agent.tools.declarations.declaring import OnlyDeclared

CONTRACT = """
search_kernel_names(query: str, limit: int = 20) | starter inspect
inspect_python(name: str, section: str = 'help') | starter code inspect
show_doc(name: str, module: str = '') | starter code inspect
api_names(name: str, module: str = '', query: str = '', limit: int = 30) | inspect
search_docs(name: str, query: str, module: str = '', depth: int = 1, limit: int = 20) | inspect
inspect_value(name: str, start: int = 0, limit: int = 20) | inspect
search_value(name: str, query: str, limit: int = 20) | inspect
source_files(name: str, module: str = '', limit: int = 30) | code inspect
source_doc(path: str, symbol: str = '') | code inspect saved_notebooks
list_skills(query: str = '', limit: int = 30) | inspect
read_skill(module: str) | inspect
trace_function(name: str, args_json: str = '[]', kwargs_json: str = '{}', max_events: int = 40) | execution
run_python(code: str, cwd: str = '.', timeout: int = 10) | execution
run_shell(command: str, cwd: str = '.', timeout: int = 10) | execution
tmux_sessions() | execution
tmux_read(pane: str, lines: int = 40) | execution
path_info(path: str = '.') | starter files
list_files(path: str = '.', pattern: str = '*', recursive: bool = False, limit: int = 30) | starter files
view_file(path: str, start_line: int = 1, end_line: int = 40) | starter files code
view_file_hashes(path: str, start_line: int = 1, end_line: int = 40) | files code
create_file(path: str, contents: str) | starter files
file_str_replace(path: str, old_str: str, new_str: str, expected_matches: int = 1) | starter files
file_strs_replace(path: str, old_strings: list[str], new_strings: list[str]) | files
file_insert_line(path: str, line: int, new_str: str) | starter files
file_replace_lines(path: str, start_line: int, end_line: int, new_content: str) | starter files
file_replace_checked(path: str, old_str: str, new_str: str, expected_sha256: str) | files code
search_files(query: str, path: str = '.', pattern: str = '*', regex: bool = False, limit: int = 20) | files code
search_notebooks(query: str, path: str = '.', limit: int = 20) | code saved_notebooks
document_outline(path: str, start: int = 0, limit: int = 20) | files
read_document_section(path: str, section: str = '') | files
notebook_outline(path: str, start: int = 0, limit: int = 20) | saved_notebooks
list_notebooks(path: str = '.', limit: int = 30) | starter saved_notebooks
find_notebook_cells(path: str, query: str, limit: int = 10) | starter saved_notebooks
read_notebook_cell(path: str, cell_id: str, start_line: int = 1, end_line: int = 40) | starter saved_notebooks
read_url(url: str) | starter web
read_url_section(url: str, selector: str = '') | web
url_to_note(url: str, after_cell_id: str = '') | starter web
list_cells(start: int = 0, limit: int = 20) | starter notebook
read_cell(cell_id: str, start_line: int = 1, end_line: int = 40) | starter notebook
find_cells(query: str, cell_type: str = '', limit: int = 20) | notebook
insert_markdown(content: str, after_cell_id: str = '') | starter notebook web
insert_code(content: str, after_cell_id: str = '') | starter notebook
replace_cell(cell_id: str, expected_source: str, new_source: str) | notebook
cell_str_replace(cell_id: str, old_str: str, new_str: str, expected_matches: int = 1) | notebook
cell_insert_line(cell_id: str, line: int, content: str, expected_source: str) | notebook
cell_replace_lines(cell_id: str, start_line: int, end_line: int, content: str, expected_source: str) | notebook
delete_cell(cell_id: str, expected_source: str) | notebook
move_cell(cell_id: str, after_cell_id: str) | notebook
copy_cell(cell_id: str, after_cell_id: str) | notebook
split_cell(cell_id: str, line: int, expected_source: str) | notebook
merge_cells(first_cell_id: str, second_cell_id: str, expected_first: str, expected_second: str) | notebook
"""  # noqa: E501
ROWS = [line.split(" | ") for line in CONTRACT.strip().split("\n")]


def signature(name: str) -> str:
    return str(inspect.signature(DECLARED[name], eval_str=True)).split(" -> ")[0]


def test_there_are_51_and_no_others() -> None:
    assert len(ROWS) == 51
    assert sorted(row[0].split("(")[0] for row in ROWS) == sorted(DECLARED)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].split("(")[0])
def test_signatures_defaults_and_groups(row: list[str]) -> None:
    name = row[0].split("(")[0]
    assert name + signature(name) == row[0]
    assert {group for group, names in GROUPS.items() if name in names} == set(row[1].split())
    assert 10 < len(description(name)) < 120
    parameters = inspect.signature(DECLARED[name]).parameters
    with pytest.raises(OnlyDeclared):
        DECLARED[name](*(None for _ in parameters))


def test_the_starter_group() -> None:
    assert len(GROUPS["starter"]) == 19
    assert list(GROUPS) == [
        "starter",
        "notebook",
        "execution",
        "inspect",
        "files",
        "code",
        "saved_notebooks",
        "web",
    ]
    assert all(len(set(names)) == len(names) <= 20 for names in GROUPS.values())
