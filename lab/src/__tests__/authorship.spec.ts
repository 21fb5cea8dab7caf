import { readEdited, readWritten, withoutAuthorship } from '../authorship';

const MARK = { runId: 'r', author: 'ada', model: 'm', backend: 'b' };

describe('authorship', () => {
  it('is read from answers and edited cells, whatever is there', () => {
    const edited = { ...MARK, at: '2026-01-01T00:00:00Z', made: true };
    expect(readEdited({ editedBy: edited })).toEqual({
      runId: 'r',
      author: 'ada',
      authorName: null,
      model: 'm',
      at: '2026-01-01T00:00:00Z',
      made: true
    });
    const answer = { isOutputCell: true, ...MARK, authorName: 'Ada L.' };
    expect(readWritten(answer)?.authorName).toBe('Ada L.');
    for (const none of [null, 7, [], {}, { editedBy: 'ada' }]) {
      expect(readEdited(none)).toBeNull();
      expect(readWritten(none)).toBeNull();
    }
    expect(readEdited({ editedBy: { author: 3 } })?.author).toBeNull();
  });

  it('is taken out, and what makes the notebook work stays', () => {
    const link = { isOutputCell: true, promptCellId: 'q', status: 'done' };
    expect(
      withoutAuthorship({ ...link, ...MARK, endedAt: 'x', inputsSha256: 'y' })
    ).toEqual(link);
    const question = { isPromptCell: true, model: 'm', backend: 'b' };
    expect(withoutAuthorship(question)).toBe(question);
    expect(withoutAuthorship({ editedBy: MARK })).toBeUndefined();
    expect(withoutAuthorship(undefined)).toBeUndefined();
  });
});
