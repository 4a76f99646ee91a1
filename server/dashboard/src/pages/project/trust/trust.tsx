import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { trustQuery } from '../../../data/queries.ts'
import { trustedWorkflowSnippet } from '../../../data/snippets.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { CodeBlock } from '../../../ui/controls/code-block.tsx'
import { ConfirmDialog } from '../../../ui/dialogs/confirm-dialog.tsx'
import { Dialog } from '../../../ui/dialogs/dialog.tsx'
import { type Column, Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'
import { Empty } from '../../../ui/page/states.tsx'
import { CreateTrust } from './create-trust.tsx'

type Rule = ResponseBody<'trust.list'>['trust'][number]

/** The repositories whose workflows may deploy to the project without a stored key. */
export function Trust() {
  const { projectId } = useParams({ from: '/layout/projects/$projectId' })
  const rules = useQuery(trustQuery(projectId))
  const [creating, setCreating] = useState(false)
  const [removing, setRemoving] = useState<Rule>()
  const close = () => setCreating(false)
  return (
    <>
      <Panel
        title="Trusted repositories"
        flush
        actions={
          <Button variant="primary" size="small" icon={<Plus size={15} />} onClick={() => setCreating(true)}>
            Trust a repository
          </Button>
        }
      >
        <QueryView query={rules} label="the rules">
          {({ trust }) => <Rules rules={trust} onRemove={setRemoving} />}
        </QueryView>
      </Panel>
      {rules.data !== undefined && rules.data.trust.length > 0 && (
        <Panel title="The workflow">
          <p className="mb-2 text-muted">
            Add this file to the repository and push. It has no secret: GitHub proves to this server where it runs.{' '}
            <code>OWNER/fairlead</code> is the repository that holds Fairlead's code.
          </p>
          <CodeBlock label="Workflow" code={trustedWorkflowSnippet(location.origin, projectId)} />
        </Panel>
      )}
      <Dialog
        open={creating}
        onClose={close}
        title="Trust a repository"
        description="Its workflows may then deploy to this project, and nothing else, without a stored key."
      >
        <CreateTrust projectId={projectId} onDone={close} />
      </Dialog>
      {removing !== undefined && (
        <RemoveTrust projectId={projectId} rule={removing} onClose={() => setRemoving(undefined)} />
      )}
    </>
  )
}

function Rules({ rules, onRemove }: { readonly rules: readonly Rule[]; readonly onRemove: (rule: Rule) => void }) {
  const actions: Column<Rule> = {
    title: 'Action',
    align: 'right',
    cell: (rule) => (
      <Button size="small" variant="danger" aria-label={`Remove ${nameOf(rule)}`} onClick={() => onRemove(rule)}>
        Remove
      </Button>
    ),
  }
  return (
    <Table
      label="Trusted repositories"
      rows={rules}
      keyOf={({ id }) => id}
      columns={[...columns, actions]}
      empty={
        <Empty title="No repository is trusted yet">
          <p>A workflow of a trusted repository gets a key for each run, which lives for some minutes.</p>
        </Empty>
      }
    />
  )
}

const columns: readonly Column<Rule>[] = [
  {
    title: 'Repository',
    cell: (rule) => (
      <>
        <p className="break-all font-medium">{nameOf(rule)}</p>
        <p className="text-[12px] text-muted">
          {rule.repository_id !== null && <>id {rule.repository_id} · </>}
          {new URL(rule.issuer).host}
        </p>
      </>
    ),
  },
  { title: 'Only', cell: (rule) => conditionsOf(rule).join(', ') || 'everything but pull requests' },
  {
    title: 'Last used',
    wideOnly: true,
    cell: ({ last_used_at }) => (last_used_at === null ? 'never' : <Time at={last_used_at} />),
  },
]

const nameOf = ({ repository, claims }: Rule): string => repository ?? claims['sub'] ?? 'any repository'

function conditionsOf({ branch, tag, environment, event, workflow, claims }: Rule): string[] {
  const given = Object.entries({ branch, tag, environment, event, workflow, ...claims })
  return given.flatMap(([name, value]) => (value === null ? [] : [`${name} ${value}`]))
}

interface RemoveTrustProps {
  readonly projectId: string
  readonly rule: Rule
  readonly onClose: () => void
}

function RemoveTrust({ projectId, rule, onClose }: RemoveTrustProps) {
  const queryClient = useQueryClient()
  const remove = useMutation({
    mutationFn: () => api.trust.delete({ params: { project_id: projectId, id: rule.id } }),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ['projects', projectId, 'trust'] })
      onClose()
    },
  })
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Trust ${nameOf(rule)} no more?`}
      action="Remove trust"
      mutation={remove}
    >
      <p>Its workflows get no new keys, and their current keys stop working at once.</p>
    </ConfirmDialog>
  )
}
