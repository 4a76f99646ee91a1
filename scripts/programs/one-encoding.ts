import { StringDecoder } from 'node:string_decoder'

/** Stands in for `iconv-lite` in the programs: the server reads bodies byte by byte, so that the tables of all other encodings are not loaded. */
export function getDecoder(encoding: string): StringDecoder {
  if (encoding !== 'binary') throw new Error(`Encoding not recognized: ${encoding}`)
  return new StringDecoder('latin1')
}
