// A real Yjs client, at the version JupyterLab bundles: what a browser would see and do.
//
//   node client.mjs apply                 stdin: JSON array of base64 updates; stdout: one report
//   node client.mjs join                  stdin: one JSON command a line; stdout: one JSON reply each
//
// A report is {cells, pending, state}: `pending` is null unless Yjs keeps operations it cannot
// integrate, which a browser never shows.

import { createInterface } from 'node:readline';
import { readFileSync } from 'node:fs';
import WebSocket from 'ws';
import * as Y from 'yjs';
import * as awarenessProtocol from 'y-protocols/awareness';
import * as syncProtocol from 'y-protocols/sync';
import * as decoding from 'lib0/decoding';
import * as encoding from 'lib0/encoding';

const SYNC = 0;
const AWARENESS = 1;
const RAW = 2;

function report(doc) {
  const cells = doc
    .getArray('cells')
    .toArray()
    .map(cell => ({
      id: cell.get('id'),
      cell_type: cell.get('cell_type'),
      source: cell.get('source').toString(),
      metadata: cell.get('metadata')?.toJSON?.() ?? null
    }));
  const { pendingStructs, pendingDs } = doc.store;
  return {
    cells,
    state: doc.getMap('state').toJSON(),
    pending: pendingStructs ? [...pendingStructs.missing.entries()] : null,
    pendingDeletions: pendingDs !== null
  };
}

class Page {
  constructor() {
    this.doc = new Y.Doc();
    this.awareness = new awarenessProtocol.Awareness(this.doc);
    this.awareness.setLocalState({ user: { username: 'person', name: 'Person' } });
    this.undo = new Y.UndoManager([this.doc.getArray('cells')], {
      trackedOrigins: new Set(['person']),
      captureTimeout: 0
    });
    this.bytes = 0;
    this.messages = 0;
    this.closed = null;
    this.changed = [];
    this.raw = [];
    this.doc.on('update', (update, origin) => {
      if (origin !== this) {
        this.send(SYNC, encoder => syncProtocol.writeUpdate(encoder, update));
      }
      this.wake();
    });
    this.awareness.on('update', ({ added, updated, removed }, origin) => {
      if (origin === 'local') {
        const update = awarenessProtocol.encodeAwarenessUpdate(this.awareness, [
          ...added,
          ...updated,
          ...removed
        ]);
        this.send(AWARENESS, encoder => encoding.writeVarUint8Array(encoder, update));
      }
      this.wake();
    });
  }

  wake() {
    this.changed.splice(0).forEach(resolve => resolve());
  }

  send(type, write) {
    if (this.socket?.readyState !== WebSocket.OPEN) {
      return;
    }
    const encoder = encoding.createEncoder();
    encoding.writeVarUint(encoder, type);
    write(encoder);
    this.socket.send(encoding.toUint8Array(encoder));
  }

  receive(data) {
    const decoder = decoding.createDecoder(new Uint8Array(data));
    const type = decoding.readVarUint(decoder);
    if (type === SYNC) {
      const encoder = encoding.createEncoder();
      encoding.writeVarUint(encoder, SYNC);
      const kind = syncProtocol.readSyncMessage(decoder, encoder, this.doc, this);
      if (encoding.length(encoder) > 1) {
        this.socket.send(encoding.toUint8Array(encoder));
      }
      if (kind === syncProtocol.messageYjsSyncStep2) {
        this.synced = true;
      }
    } else if (type === AWARENESS) {
      awarenessProtocol.applyAwarenessUpdate(
        this.awareness,
        decoding.readVarUint8Array(decoder),
        this
      );
    } else {
      this.raw.push(decoding.readVarString(decoder));
    }
    this.wake();
  }

  connect(url) {
    return new Promise((resolve, reject) => {
      this.synced = false;
      this.closed = null;
      const socket = new WebSocket(url);
      socket.binaryType = 'arraybuffer';
      this.socket = socket;
      socket.on('message', data => {
        this.bytes += data.byteLength;
        this.messages += 1;
        this.receive(data);
        if (this.synced) {
          resolve();
        }
      });
      socket.on('open', () => {
        this.send(SYNC, encoder => syncProtocol.writeSyncStep1(encoder, this.doc));
        const clients = [...this.awareness.getStates().keys()];
        const update = awarenessProtocol.encodeAwarenessUpdate(this.awareness, clients);
        this.send(AWARENESS, encoder => encoding.writeVarUint8Array(encoder, update));
      });
      socket.on('error', reject);
      socket.on('close', (code, reason) => {
        this.closed = { code, reason: reason.toString() };
        reject(new Error(`closed ${code}`));
        this.wake();
      });
    });
  }

  cell(command) {
    const cells = this.doc.getArray('cells');
    if (command.id === undefined) {
      return cells.get(command.cell ?? 0);
    }
    return cells.toArray().find(cell => cell.get('id') === command.id);
  }

  async until(condition, timeout) {
    const end = Date.now() + timeout;
    while (!condition()) {
      const left = end - Date.now();
      if (left <= 0) {
        return false;
      }
      await new Promise(resolve => {
        const timer = setTimeout(resolve, left);
        this.changed.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
    return true;
  }
}

const commands = {
  async join(page, { url, retry = 0 }) {
    const end = Date.now() + retry;
    for (;;) {
      try {
        await page.connect(url);
        return report(page.doc);
      } catch (error) {
        if (Date.now() > end) {
          throw error;
        }
        await new Promise(resolve => setTimeout(resolve, 200));
      }
    }
  },
  async cut(page) {
    page.socket.terminate();
    await page.until(() => page.closed !== null, 5000);
    return {};
  },
  cells: page => report(page.doc),
  stats: page => ({
    bytes: page.bytes,
    messages: page.messages,
    closed: page.closed,
    raw: page.raw,
    clientId: page.doc.clientID
  }),
  type(page, command) {
    const source = page.cell(command).get('source');
    const at = command.at ?? source.length;
    page.doc.transact(() => source.insert(at, command.text), 'person');
    return {};
  },
  insert(page, { at, cell_type = 'markdown', text, id, metadata = {} }) {
    page.doc.transact(() => {
      const cell = new Y.Map();
      cell.set('id', id);
      cell.set('cell_type', cell_type);
      cell.set('source', new Y.Text(text));
      cell.set('metadata', new Y.Map(Object.entries(metadata)));
      page.doc.getArray('cells').insert(at, [cell]);
    }, 'person');
    return {};
  },
  remove(page, { at }) {
    page.doc.transact(() => page.doc.getArray('cells').delete(at, 1), 'person');
    return {};
  },
  undo: page => ({ undone: page.undo.undo() !== null }),
  async save(page) {
    const before = page.raw.length;
    page.send(RAW, encoder => {
      encoding.writeVarString(encoder, 'save');
      encoding.writeVarUint(encoder, 1);
    });
    await page.until(() => page.raw.length > before, 20000);
    return JSON.parse(page.raw.at(-1));
  },
  async see(page, { text, timeout = 5000 }) {
    const seen = await page.until(
      () => report(page.doc).cells.some(cell => cell.source.includes(text)),
      timeout
    );
    return { seen, ...report(page.doc) };
  },
  async seeAwareness(page, { key, present = true, timeout = 5000 }) {
    const find = () => [...page.awareness.getStates().values()].some(state => key in state);
    const seen = await page.until(() => find() === present, timeout);
    return { seen, states: [...page.awareness.getStates().entries()] };
  },
  awareness: page => ({ states: [...page.awareness.getStates().entries()] }),
  announce(page, { state }) {
    page.awareness.setLocalState(state);
    return {};
  },
  resolve(page, { position }) {
    const relative = Y.createRelativePositionFromJSON(position);
    const found = Y.createAbsolutePositionFromRelativePosition(relative, page.doc);
    return { index: found?.index ?? null };
  }
};

async function serve() {
  const page = new Page();
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    let reply;
    try {
      reply = await commands[command.do](page, command);
    } catch (error) {
      reply = { error: `${error.name}: ${error.message}` };
    }
    process.stdout.write(JSON.stringify(reply) + '\n');
  }
  process.exit(0);
}

if (process.argv[2] === 'apply') {
  const doc = new Y.Doc();
  for (const update of JSON.parse(readFileSync(0, 'utf8'))) {
    Y.applyUpdate(doc, Buffer.from(update, 'base64'));
  }
  process.stdout.write(JSON.stringify(report(doc)));
} else {
  await serve();
}
