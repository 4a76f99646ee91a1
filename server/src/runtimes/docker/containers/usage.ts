import type { Usage } from '../../runtime.ts'
import type { Engine } from '../engine/engine.ts'
import { unlessMissing } from '../engine/error.ts'

interface Stats {
  readonly memory_stats?: {
    readonly usage?: number
    readonly stats?: { readonly inactive_file?: number; readonly total_inactive_file?: number }
  }
  readonly cpu_stats?: { readonly cpu_usage?: { readonly total_usage?: number } }
  readonly pids_stats?: { readonly current?: number }
}

/** Measures a container. Zero for one that has ended. */
export async function usageOf(engine: Engine, id: string): Promise<Usage> {
  const asked = engine.call<Stats | null>({
    method: 'GET',
    path: ['containers', id, 'stats'],
    // Without it, the engine measures twice, a second apart.
    query: { stream: false, 'one-shot': true },
  })
  const { memory_stats: memory, cpu_stats, pids_stats } = (await unlessMissing(asked, null)) ?? {}
  // Files that the kernel keeps in memory until it needs the room; the first name is that of cgroups v1.
  const cached = memory?.stats?.total_inactive_file ?? memory?.stats?.inactive_file ?? 0
  return {
    memoryBytes: Math.max(0, (memory?.usage ?? 0) - cached),
    cpuSeconds: memory?.usage === undefined ? 0 : (cpu_stats?.cpu_usage?.total_usage ?? 0) / 1e9,
    processes: pids_stats?.current ?? 0,
  }
}
