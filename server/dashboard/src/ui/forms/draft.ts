import { createContext, useContext } from 'react'

/*
 * A draft is what a user types over values that the server has. The values may change while a form is open: fields that the
 * user left alone follow them, and only the others are sent. So nobody's change is undone by a user who did not see it.
 */

/** The values that the server has now, by the names of their controls. */
export type Saved = Readonly<Record<string, string>>

/** The typed texts by the names of the controls, each with the value that the server had when its user began. */
export type Draft = ReadonlyMap<string, { readonly over: string; readonly text: string }>

/**
 * Returns the draft after a user has typed. A field with its saved value again counts as left alone, except one that is being
 * sent with another text: the server has that text soon.
 */
export function typed(draft: Draft, saved: Saved, name: string, text: string, sending: Draft = new Map()): Draft {
  const next = new Map(draft)
  const value = savedValue(saved, name)
  if (text === value && !sending.has(name)) next.delete(name)
  else next.set(name, { over: draft.get(name)?.over ?? value, text })
  return next
}

/** Returns the draft without what was sent, after the server has taken it. What was typed since stays, over what was sent. */
export function withoutSent(draft: Draft, sent: Draft): Draft {
  const left = [...draft].filter(([name, { text }]) => text !== sent.get(name)?.text)
  return new Map(left.map(([name, { over, text }]) => [name, { over: sent.get(name)?.text ?? over, text }]))
}

/** The outcome of the last use of the submit button. */
export type Outcome = 'saved' | 'unchanged' | undefined

/** Returns what a form says of an outcome. Nothing is called saved while the form shows a text that is not. */
export function outcomeText(outcome: Outcome, draft: Draft): string {
  if (outcome === 'unchanged') return 'Nothing was changed.'
  return outcome === 'saved' && draft.size === 0 ? 'Saved.' : ''
}

/** Removes the values from a form that are as saved. Returns true when others are left of those that have saved values. */
export function keepChanges(values: FormData, saved: Saved, draft: Draft): boolean {
  const names = Object.keys(saved)
  const unchanged = names.filter((name) => shownText(draft, saved, name) === saved[name])
  for (const name of unchanged) values.delete(name)
  return unchanged.length < names.length
}

export const shownText = (draft: Draft, saved: Saved, name: string): string =>
  draft.get(name)?.text ?? savedValue(saved, name)

/** Returns what another user or tab has saved since this field was changed; `undefined` for nothing. */
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

/** Gives the control of a name its draft; `undefined` where it has no saved value. */
export const DraftContext = createContext<(name: string) => DraftField | undefined>(() => undefined)

/** Returns the draft of a control; `undefined` for one without a saved value. */
export function useDraftField(name: string | undefined): DraftField | undefined {
  const fieldOf = useContext(DraftContext)
  return name === undefined ? undefined : fieldOf(name)
}
