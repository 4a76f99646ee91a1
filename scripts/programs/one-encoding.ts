import { StringDecoder } from 'node:string_decoder'

/**
 * Replaces `iconv-lite` in the programs: the server reads bodies as bytes, so the tables of other encodings are not
 * needed.
 */
export function getDecoder(encoding: string): StringDecoder {
  if (encoding !== 'binary') throw new Error(`Encoding not recognized: ${encoding}`)
  return new StringDecoder('latin1')
}
