import { typeid } from 'typeid-js'
import { type IdKind, idPrefixes } from '../contract/ids.ts'

/** A new identifier: its kind's prefix and a UUIDv7, so that later ones sort after earlier ones. */
export function newId(kind: IdKind): string {
  return typeid(idPrefixes[kind]).toString()
}
