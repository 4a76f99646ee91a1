/** The specification's plan tiers ("Limits"). */
export const tiers = ['free', 'pro', 'enterprise'] as const
export type Tier = (typeof tiers)[number]

export function isTier(value: string): value is Tier {
  return (tiers as readonly string[]).includes(value)
}
