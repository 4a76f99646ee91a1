/** The orders that an authority allows to the whole server. */
export interface AuthorityLimits {
  /** New certificates below one registered domain in a week. */
  readonly perDomain: number
  /** Orders of one account at the authority in three hours. */
  readonly perAccount: number
}

/** Orders of the time that a limit looks at. */
export interface UsedOrders {
  /** By everybody. */
  readonly all: number
  /** By the account that asks. */
  readonly own: number
}

/** Let's Encrypt's own (letsencrypt.org/docs/rate-limits), a little below, for what others may have asked for by hand. */
const letsEncrypt: AuthorityLimits = { perDomain: 48, perAccount: 290 }
/** Authorities of companies and of tests tell by themselves when it is too much. */
const others: AuthorityLimits = { perDomain: 1000, perAccount: 1000 }

/** @param directory the address of an authority's directory */
export function limitsOf(directory: string): AuthorityLimits {
  return new URL(directory).hostname.endsWith('.letsencrypt.org') ? letsEncrypt : others
}

/**
 * True when one more order fits. A tenant gets at most half of what the others have left, so that no tenant, however many apps it
 * has, uses up the limit of all. The operator's own account may use the rest.
 */
export function mayOrder(most: number, { all, own }: UsedOrders, isOperator: boolean): boolean {
  return all < most && (isOperator || own < (most - (all - own)) / 2)
}
