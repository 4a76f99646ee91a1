/**
 * `broken`: the server cannot run; `missing`: it runs with the restriction in `cost`; `absent`: only some apps would
 * need it.
 */
export interface Finding {
  readonly subject: string
  readonly state: 'ok' | 'absent' | 'missing' | 'broken'
  readonly found: string
  readonly cost?: string
}
