/** A name besides an app's address. `*.example.com` stands for all names with one more label. */
export interface HostName {
  readonly hostname: string
  /** Visitors are redirected there, to the same path; null when the app answers. */
  readonly redirectTo: string | null
}

export interface AppNames {
  readonly appId: string
  readonly names: readonly HostName[]
}

/** The additional names of all apps, in the form of `hostnameOf`. */
export interface HostNames {
  /** Replaces the names of an app. A name that another app has moves to this app: the last call wins. */
  set(appId: string, names: readonly HostName[]): void
  of(appId: string): readonly HostName[]
  all(): AppNames[]
  /** Finds the app that has a name, or else the app whose wildcard covers the name. */
  find(hostname: string): (HostName & { readonly appId: string }) | null
}

export function createHostNames(): HostNames {
  const owners = new Map<string, HostName & { readonly appId: string }>()
  const byApp = new Map<string, readonly HostName[]>()

  const drop = (appId: string, isKept: (name: HostName) => boolean): void => {
    const names = byApp.get(appId) ?? []
    const kept = names.filter(isKept)
    if (kept.length > 0) byApp.set(appId, kept)
    else byApp.delete(appId)
    for (const name of names) if (!isKept(name)) owners.delete(name.hostname)
  }

  return {
    set(appId, names) {
      drop(appId, () => false)
      const own = new Map(names.map((name) => [name.hostname, name]))
      for (const { hostname } of own.values()) {
        const other = owners.get(hostname)
        if (other !== undefined) drop(other.appId, (name) => name.hostname !== hostname)
      }
      for (const { hostname, redirectTo } of own.values()) owners.set(hostname, { hostname, redirectTo, appId })
      if (own.size > 0) byApp.set(appId, [...own.values()])
    },
    of: (appId) => byApp.get(appId) ?? [],
    all: () => [...byApp].map(([appId, names]) => ({ appId, names })),
    find: (hostname) => owners.get(hostname) ?? owners.get(wildcardOf(hostname)) ?? null,
  }
}

/** Returns the wildcard that covers a name: `*.example.com` for `www.example.com`. */
export function wildcardOf(hostname: string): string {
  const dot = hostname.indexOf('.')
  return dot === -1 ? '' : `*${hostname.slice(dot)}`
}
