import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { Copy, Plus } from 'lucide-react'
import { useState } from 'react'
import { variablesQuery } from '../../../../data/queries.ts'
import type { VariableRow } from '../../../../data/variable-rows.ts'
import { Button } from '../../../../ui/controls/button.tsx'
import { Panel } from '../../../../ui/page/page.tsx'
import { QueryView } from '../../../../ui/page/query-view.tsx'
import { Links } from '../../links/links.tsx'
import { ChangeVariables } from './change-variables.tsx'
import { CopyVariables } from './copy-variables.tsx'
import { GivenVariables } from './given-variables.tsx'
import { PendingVariables } from './pending-variables.tsx'
import { VariablesTable } from './variables-table.tsx'

/** The variables of an app for later releases, and the changes since the current release. */
export function Variables() {
  const app = useParams({ from: '/layout/projects/$projectId/apps/$appId' })
  const query = useQuery(variablesQuery(app.projectId, app.appId))
  const [changing, setChanging] = useState<readonly VariableRow[]>()
  const [copying, setCopying] = useState(false)
  return (
    <QueryView query={query} label="the variables">
      {(state) => (
        <>
          <PendingVariables app={app} state={state} />
          <GivenVariables app={app} names={state.env_vars} />
          <Panel
            title="Variables"
            flush
            actions={
              <>
                <Button size="small" icon={<Copy size={14} />} onClick={() => setCopying(true)}>
                  Copy from an app
                </Button>
                <Button
                  size="small"
                  variant="primary"
                  icon={<Plus size={15} />}
                  onClick={() => setChanging([{ name: '', value: '' }])}
                >
                  Add variables
                </Button>
              </>
            }
          >
            <VariablesTable
              app={app}
              variables={state.variables}
              onChange={({ name, value }) => setChanging([{ name, value: value ?? '' }])}
            />
          </Panel>
          <Links projectId={app.projectId} side={{ kind: 'app', id: app.appId }} />
          {changing !== undefined && (
            <ChangeVariables app={app} state={state} initial={changing} onClose={() => setChanging(undefined)} />
          )}
          {copying && <CopyVariables app={app} onClose={() => setCopying(false)} />}
        </>
      )}
    </QueryView>
  )
}
