/** Which project plans there are, and which the tier of an account may use. */
const plans: Readonly<Record<string, readonly string[]>> = {
  free: ['free', 'pro', 'enterprise'],
  starter: ['free', 'pro', 'enterprise'],
  pro: ['pro', 'enterprise'],
  enterprise: ['enterprise'],
}

export const defaultPlan = 'free'

/** The plans that an account of this tier may choose for a project. */
export function plansForTier(tier: string): string[] {
  return Object.keys(plans).filter((plan) => plans[plan]?.includes(tier))
}
