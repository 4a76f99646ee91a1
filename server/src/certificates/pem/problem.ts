/** The reason why a certificate or a key cannot be used. */
export interface PemProblem {
  readonly field: 'certificate' | 'private_key'
  /** Stable. */
  readonly code: string
  /** Continues a sentence whose subject is the field. */
  readonly message: string
}

export const isProblem = (value: object): value is PemProblem => 'field' in value && 'code' in value
