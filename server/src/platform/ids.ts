import { typeid } from 'typeid-js'
import { type IdKind, idPrefixes } from '../contract/ids.ts'

/** Returns a new identifier: the prefix of its kind and a UUIDv7, so that later identifiers sort after earlier ones. */
export function newId(kind: IdKind): string {
  return typeid(idPrefixes[kind]).toString()
}
