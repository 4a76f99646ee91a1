/** The result of one check. `broken`: the server cannot run; `missing`: it runs with the restriction that `cost` describes. */
export interface Finding {
  readonly subject: string
  readonly state: 'ok' | 'missing' | 'broken'
  readonly found: string
  readonly cost?: string
}
