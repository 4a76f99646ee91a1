import { parse, TomlError } from 'smol-toml'
import type { Fields, Read } from './json.ts'

/** Reads the text of a TOML file; a failure's message names the position. Never throws. */
export function readToml(name: string, text: string): Read<Fields> {
  try {
    return { ok: true, value: parse(text.replace(/^\uFEFF/, '')) }
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    return { ok: false, message: `${name} is not valid TOML: see line ${error.line}, column ${error.column}.` }
  }
}
