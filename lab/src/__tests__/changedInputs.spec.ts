import * as fc from 'fast-check';

import { ChangedInputs } from '../changedInputs';

function over(cells: Map<string, string>): ChangedInputs {
  return new ChangedInputs((id, outputs) => {
    const source = cells.get(id);
    return source === undefined ? null : outputs ? `${source}.out` : source;
  });
}

describe('changed inputs', () => {
  it('are seen when a cell changes, and no more when it is changed back', () => {
    const cells = new Map([
      ['a', '1'],
      ['b', '2']
    ]);
    const inputs = over(cells);
    inputs.add('run', { a: '1', b: '2.out' });
    expect([...inputs.look('a'), ...inputs.look('b')]).toEqual([]);

    cells.set('a', 'other');
    expect(inputs.look('a')).toEqual(['run']);
    expect(inputs.look('a')).toEqual([]);
    expect([...inputs.changed('run')]).toEqual(['a']);

    cells.set('a', '1');
    expect(inputs.look('a')).toEqual(['run']);
    expect(inputs.changed('run').size).toBe(0);
  });

  it('are also cells that are gone', () => {
    const cells = new Map([['a', '1']]);
    const inputs = over(cells);
    inputs.add('run', { a: '1' });
    cells.delete('a');
    expect(inputs.look('a')).toEqual(['run']);
    expect([...inputs.changed('run')]).toEqual(['a']);
  });

  it('concern only the runs that were made from them', () => {
    const cells = new Map([
      ['a', '1'],
      ['b', '2']
    ]);
    const inputs = over(cells);
    inputs.add('one', { a: '1' });
    inputs.add('two', { a: '1', b: '2' });
    expect(inputs.concerns('c')).toBe(false);
    cells.set('b', '3');
    expect(inputs.look('b')).toEqual(['two']);
    inputs.remove('two');
    expect(inputs.concerns('b')).toBe(false);
    expect(inputs.knows('two')).toBe(false);
    expect(inputs.changed('two').size).toBe(0);
    expect([...inputs.cells()]).toEqual(['a']);
  });

  it('are always those whose hash differs', () => {
    const id = fc.constantFrom('a', 'b', 'c', 'd');
    const value = fc.constantFrom('0', '1');
    fc.assert(
      fc.property(
        fc.dictionary(id, value),
        fc.array(fc.tuple(id, fc.option(value)), { maxLength: 20 }),
        (made, edits) => {
          const cells = new Map(Object.entries(made));
          const inputs = over(cells);
          inputs.add('run', made);
          for (const [cell, change] of edits) {
            if (change === null) {
              cells.delete(cell);
            } else {
              cells.set(cell, change);
            }
            inputs.look(cell);
          }
          const expected = Object.keys(made).filter(
            cell => cells.get(cell) !== made[cell]
          );
          expect([...inputs.changed('run')].sort()).toEqual(expected.sort());
        }
      )
    );
  });
});
