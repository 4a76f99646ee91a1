/** Passes what happens on to those who listen. */
export interface Listeners<Event> {
  emit(event: Event): void
  /** Returns a function that removes the listener. */
  add(listener: (event: Event) => void): () => void
}

export function createListeners<Event>(): Listeners<Event> {
  const listeners = new Set<(event: Event) => void>()
  return {
    emit(event) {
      for (const listener of listeners) listener(event)
    },
    add(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}
