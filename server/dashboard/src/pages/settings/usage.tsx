import type { ResponseBody } from '@fairlead/server/client'
import { useQuery } from '@tanstack/react-query'
import { accountUsageQuery } from '../../data/queries.ts'
import { Meter } from '../../ui/display/meter.tsx'
import { Panel } from '../../ui/page/page.tsx'
import { QueryView } from '../../ui/page/query-view.tsx'

type Usage = ResponseBody<'account.usage'>['usage'][number]

const labels: Readonly<Record<Usage['limit'], string>> = {
  projects: 'Projects',
  apps: 'Apps',
  databases: 'Databases',
  storage_gb: 'Storage',
  building: 'Deployments that wait or are built',
  runs: 'Commands that run',
  schedules: 'Schedules',
  domains: 'Domains',
  api_keys: 'API keys',
}

const number = new Intl.NumberFormat('en', { maximumFractionDigits: 2 })

function textOf({ limit, used, most }: Usage): string {
  const unit = limit === 'storage_gb' ? ' GB' : ''
  return `${number.format(used)} of ${number.format(most)}${unit}`
}

/** The usage of the account over all of its projects, against the limits of its plan. */
export function UsagePanel() {
  const usage = useQuery(accountUsageQuery)
  return (
    <Panel title="Usage of all projects together">
      <QueryView query={usage} label="the usage">
        {(data) => (
          <div className="grid gap-x-8 gap-y-4 sm:grid-cols-2">
            {data.usage.map((each) => (
              <Meter
                key={each.limit}
                label={labels[each.limit]}
                value={each.used}
                max={each.most}
                text={textOf(each)}
              />
            ))}
          </div>
        )}
      </QueryView>
    </Panel>
  )
}
