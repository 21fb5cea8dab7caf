/** @jest-environment node */
import { readFileSync } from 'fs';
import { join } from 'path';

import { cellHash, coversOutputs, outputsText } from '../inputHash';

interface IExample {
  name: string;
  source: string;
  outputs: unknown[] | null;
  hash: string;
}

const EXAMPLES = JSON.parse(
  readFileSync(join(__dirname, 'inputHashes.json'), 'utf-8')
) as IExample[];

describe('hashes of inputs', () => {
  it.each(EXAMPLES)('are those of the server: $name', example => {
    expect(cellHash(example.source, example.outputs)).toBe(example.hash);
    expect(coversOutputs(example.hash)).toBe(example.outputs !== null);
  });

  it('do not mind how a stream is cut, nor damaged outputs', () => {
    const stream = (text: unknown): object => ({
      output_type: 'stream',
      name: 'stdout',
      text
    });
    expect(outputsText([stream('a\n'), null, stream(['b', 'c'])])).toBe(
      outputsText([stream('a\nbc')])
    );
    expect(outputsText([3, 'x', [], { output_type: 'update' }])).toBe('');
  });
});
