import type { BuildPlan } from './build-plan.ts'
import { LARGEST_FILE } from './tree.ts'

/** The message tells the owner of the code what to do. */
export interface PlanFailure {
  readonly code:
    | 'file_unreadable'
    | 'invalid_fairlead_json'
    | 'invalid_procfile'
    | 'invalid_package_json'
    | 'invalid_pyproject'
    | 'python_missing'
    | 'no_start'
    | 'not_recognised'
    | (string & {})
  readonly message: string
  /** Folders with an app that can start, for the owner to choose from. */
  readonly suggestions?: readonly { readonly root: string; readonly kind: string }[]
}

export type Result<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly failure: PlanFailure }

export type PlanResult =
  | { readonly ok: true; readonly plan: BuildPlan }
  | { readonly ok: false; readonly failure: PlanFailure }

export function failed(code: PlanFailure['code'], message: string): { ok: false; failure: PlanFailure } {
  return { ok: false, failure: { code, message } }
}

export const unreadable = (name: string) =>
  failed('file_unreadable', `${name} cannot be read: it must be a plain file of at most ${LARGEST_FILE / 1024} KB.`)

/** Quotes a text for a message, with a limited length. */
export const quote = (text: string): string => `"${text.length > 80 ? `${text.slice(0, 80)}…` : text}"`
