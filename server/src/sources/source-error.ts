/** A source that cannot be fetched. The message tells the owner what to do. */
export class SourceError extends Error {
  override readonly name = 'SourceError'
  /** Stable and machine-readable, such as `unknown_branch`. */
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}
