/** One small real application: its files are in `apps/<name>`, and it is deployed like a stranger's repository. */
export interface Row {
  /** The folder in `apps`. */
  readonly name: string
  /** The language or the framework, for the table. */
  readonly kind: string
  /**
   * The origin of its files, for example 'made by create-vite@8.0.1 (react)' or 'written by hand after the
   * documentation of Nuxt 4', and later changes.
   */
  readonly origin: string
  /** A text that the page at `/` must have. */
  readonly page: string
  /** Texts that other paths must have, for example paths that exist only in the browser's router. */
  readonly pages?: Readonly<Record<string, string>>
  /**
   * Required programs, and absolute paths of libraries that its packages contain: if one of them is missing the row is
   * skipped, and the table says so.
   */
  readonly needs?: readonly string[]
  /** Variables of the app, which its documentation requires. */
  readonly variables?: Readonly<Record<string, string>>
  /** True when the app gets a database of its project in `DATABASE_URL`. */
  readonly hasDatabase?: true
  /** True for the few quick applications, which are part of `npm test`. */
  readonly isQuick?: true
}
