/** Events of the process, heard by one listener for however many want to hear: more than ten would be taken for a leak. */
type Listener = (...details: never[]) => void;
type ProcessEvent = NodeJS.Signals | "exit";

interface Shared {
  readonly listeners: { readonly listener: Listener }[];
  readonly hear: Listener;
}

const heard = new Map<ProcessEvent, Shared>();

/** Returns the function that ends it. A listener that is given several times is called once. */
export function listenToProcess(event: ProcessEvent, listener: Listener): () => void {
  const { listeners } = heard.get(event) ?? begin(event);
  const place = { listener };
  listeners.push(place);
  return () => {
    const index = listeners.indexOf(place);
    if (index < 0) return;
    listeners.splice(index, 1);
    if (listeners.length === 0) end(event);
  };
}

function begin(event: ProcessEvent): Shared {
  const listeners: Shared["listeners"] = [];
  const hear: Listener = (...details) => {
    for (const listener of new Set(listeners.map((place) => place.listener))) listener(...details);
  };
  const shared = { listeners, hear };
  heard.set(event, shared);
  process.on(event as "exit", hear as () => void);
  return shared;
}

function end(event: ProcessEvent): void {
  const shared = heard.get(event);
  if (!shared) return;
  heard.delete(event);
  process.off(event, shared.hear as () => void);
}
