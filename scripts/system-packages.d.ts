export interface SystemPackage {
  readonly package: string
  readonly programs?: readonly string[]
  readonly python?: string
  readonly for: string
}
export const systemPackages: readonly SystemPackage[]
export function missingPackages(): readonly SystemPackage[]
