/** A block of PEM (RFC 7468). */
export interface PemBlock {
  /** Such as `CERTIFICATE`. */
  readonly label: string
  /** The whole block, with its first and last line. */
  readonly text: string
  /** True for a private key that needs a password. */
  readonly isEncrypted: boolean
}

/** Returns the blocks of a text in their order. Text around them and blocks without an end are left out. */
export function blocksIn(text: string): PemBlock[] {
  const found: PemBlock[] = []
  let open: { readonly label: string; readonly lines: string[] } | undefined
  for (const line of text.split(/\r?\n|\r/).map((each) => each.trim())) {
    const begun = /^-----BEGIN ([A-Z0-9 ]{1,40})-----$/.exec(line)?.[1]
    if (begun !== undefined) open = { label: begun, lines: [] }
    open?.lines.push(line)
    if (open === undefined || line !== `-----END ${open.label}-----`) continue
    const { label, lines } = open
    const isEncrypted = label === 'ENCRYPTED PRIVATE KEY' || lines.some((each) => /^Proc-Type:.*ENCRYPTED/i.test(each))
    found.push({ label, text: `${lines.join('\n')}\n`, isEncrypted })
    open = undefined
  }
  return found
}

/** Returns the text of the blocks of certificates, one for each. */
export const certificateBlocks = (text: string): string[] =>
  blocksIn(text)
    .filter(({ label }) => ['CERTIFICATE', 'X509 CERTIFICATE', 'TRUSTED CERTIFICATE'].includes(label))
    .map((block) => block.text)

/** True for the block of a private key, encrypted or not. */
export const isPrivateKey = ({ label }: PemBlock): boolean => label.endsWith('PRIVATE KEY')
