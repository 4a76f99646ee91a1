/*
 * Denies the build daemon and all steps two kinds of sockets that no firewall sees: AF_PACKET packets bypass the rules
 * of their network, and AF_VSOCK leads from a virtual machine to its host. The engine's own filter for steps allows
 * both.
 */

/** A processor's instruction set and its system call numbers (linux/audit.h, unistd.h). */
interface Abi {
  readonly arch: number
  /** The numbers of `socket`. Its first argument is the socket family. */
  readonly socket: readonly number[]
  /** The numbers of calls that hide the socket family from filters. */
  readonly denied: readonly number[]
}

const abis: Readonly<Record<string, readonly Abi[]>> = {
  x64: [
    // The second number is for x32.
    { arch: 0xc000003e, socket: [41, 0x40000029], denied: [] },
    { arch: 0x40000003, socket: [359], denied: [102] },
  ],
  arm64: [
    { arch: 0xc00000b7, socket: [198], denied: [] },
    { arch: 0x40000028, socket: [281], denied: [102] },
  ],
}

const deniedKinds = [17, 40]
/** Offsets in `struct seccomp_data`. On these processors the low half of the first argument comes first. */
const offsets = { number: 0, arch: 4, firstArgument: 16 }
const allow = 0x7fff0000
/** EPERM. */
const deny = 0x00050001

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number]

const load = (offset: number): Instruction => [0x20, 0, 0, offset]
const end = (value: number): Instruction => [0x06, 0, 0, value]
/** Skips `over` instructions unless the loaded word has this value. */
const unless = (value: number, over: number): Instruction => [0x15, 0, over, value >>> 0]

/** Returns the filter in the format of bubblewrap; null for an unknown processor. */
export function socketFilter(processor: string): Buffer | null {
  const known = abis[processor]
  if (known === undefined) return null
  // Other instruction sets have other numbers, so all their calls are denied.
  const program = [...known.flatMap(instructionsOf), end(deny)]
  return Buffer.concat(program.map(encode))
}

function instructionsOf({ arch, socket, denied }: Abi): Instruction[] {
  const kinds = deniedKinds.flatMap((kind) => [unless(kind, 1), end(deny)])
  const check = [load(offsets.firstArgument), ...kinds, end(allow)]
  const body = [
    load(offsets.number),
    ...denied.flatMap((number) => [unless(number, 1), end(deny)]),
    ...socket.flatMap((number) => [unless(number, check.length), ...check]),
    end(allow),
  ]
  return [load(offsets.arch), unless(arch, body.length), ...body]
}

function encode([code, ifTrue, ifFalse, value]: Instruction): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeUInt16LE(code, 0)
  bytes.writeUInt8(ifTrue, 2)
  bytes.writeUInt8(ifFalse, 3)
  bytes.writeUInt32LE(value >>> 0, 4)
  return bytes
}
