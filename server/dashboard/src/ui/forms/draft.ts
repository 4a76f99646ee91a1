import { createContext, useContext } from 'react'

/*
 * A draft is the text that a user types over the server's values. The values may change while a form is open: unchanged
 * fields follow them, and only changed fields are sent. So a user cannot undo another user's change without having seen
 * it.
 */

/** The server's current values, by the names of their controls. */
export type Saved = Readonly<Record<string, string>>

/** The typed texts by the names of the controls, each with the server's value when the user began. */
export type Draft = ReadonlyMap<string, { readonly over: string; readonly text: string }>

/**
 * Returns the draft after a user has typed. A field with its saved value counts as unchanged, unless it is being sent
 * with another text, which the server has soon.
 */
export function typed(draft: Draft, saved: Saved, name: string, text: string, sending: Draft = new Map()): Draft {
  const next = new Map(draft)
  const value = savedValue(saved, name)
  if (text === value && !sending.has(name)) next.delete(name)
  else next.set(name, { over: draft.get(name)?.over ?? value, text })
  return next
}

/** Returns the draft without the texts that the server has saved. Text that was typed since stays. */
export function withoutSent(draft: Draft, sent: Draft): Draft {
  const left = [...draft].filter(([name, { text }]) => text !== sent.get(name)?.text)
  return new Map(left.map(([name, { over, text }]) => [name, { over: sent.get(name)?.text ?? over, text }]))
}

/** The outcome of the last use of the submit button. */
export type Outcome = 'saved' | 'unchanged' | undefined

/** Returns the form's message for an outcome. Never says "saved" while the form shows unsaved text. */
export function outcomeText(outcome: Outcome, draft: Draft): string {
  if (outcome === 'unchanged') return 'Nothing was changed.'
  return outcome === 'saved' && draft.size === 0 ? 'Saved.' : ''
}

/** Removes unchanged values from a form. Returns true when changed values remain. */
export function keepChanges(values: FormData, saved: Saved, draft: Draft): boolean {
  const names = Object.keys(saved)
  const unchanged = names.filter((name) => shownText(draft, saved, name) === saved[name])
  for (const name of unchanged) values.delete(name)
  return unchanged.length < names.length
}

export const shownText = (draft: Draft, saved: Saved, name: string): string =>
  draft.get(name)?.text ?? savedValue(saved, name)

/**
 * Returns the value that another user or tab has saved since this field was changed; `undefined` without such a value.
 */
export function savedSince(draft: Draft, saved: Saved, name: string): string | undefined {
  const entry = draft.get(name)
  const value = savedValue(saved, name)
  return entry === undefined || value === entry.over || value === entry.text ? undefined : value
}

const savedValue = (saved: Saved, name: string): string => (Object.hasOwn(saved, name) ? (saved[name] ?? '') : '')

/** A control of a form with saved values. */
export interface DraftField {
  readonly value: string
  readonly onChange: (text: string) => void
  /** A warning to read before this control is saved; empty for none. */
  readonly note: string
}

/** Gives a control its draft, by name; `undefined` without a saved value. */
export const DraftContext = createContext<(name: string) => DraftField | undefined>(() => undefined)

/** Returns the draft of a control; `undefined` without a saved value. */
export function useDraftField(name: string | undefined): DraftField | undefined {
  const fieldOf = useContext(DraftContext)
  return name === undefined ? undefined : fieldOf(name)
}
