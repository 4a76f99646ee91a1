/** The reasons for which a name cannot be a domain of an app. Stable, for programs and tests. */
export type NameRefusalCode =
  | 'empty'
  | 'url'
  | 'port'
  | 'user'
  | 'ip_address'
  | 'trailing_dot'
  | 'empty_label'
  | 'single_label'
  | 'label_too_long'
  | 'name_too_long'
  | 'hyphen'
  | 'reserved_label'
  | 'underscore'
  | 'character'
  | 'emoji'
  | 'punycode'
  | 'not_canonical'
  | 'mixed_scripts'
  | 'wildcard_place'
  | 'wildcard_of_suffix'
  | 'public_suffix'
  | 'platform_name'
  | 'special_use'
  | 'own_name'
  | 'covers_own_name'

export interface NameRefusal {
  readonly code: NameRefusalCode
  /** Says what must be done; to be read after the name of a field. */
  readonly message: string
}

export const refuse = (code: NameRefusalCode, message: string): NameRefusal => ({ code, message })

/** Returns a text of a stranger for messages: one line of characters that can be seen, and not too many. */
export function quote(text: string): string {
  const seen = text.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, '\u{fffd}')
  return `“${[...seen].length > 60 ? `${[...seen].slice(0, 60).join('')}…` : seen}”`
}
