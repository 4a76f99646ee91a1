/**
 * The result of a check. `broken`: the server cannot run; `missing`: it runs with the restriction that `cost`
 * describes; `absent`: something that only some apps need is not there.
 */
export interface Finding {
  readonly subject: string
  readonly state: 'ok' | 'absent' | 'missing' | 'broken'
  readonly found: string
  readonly cost?: string
}
