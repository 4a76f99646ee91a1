import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../../../data/client.ts'
import type { AppVariables } from '../../../../data/deployments.ts'
import { Button } from '../../../../ui/controls/button.tsx'
import { Dialog } from '../../../../ui/dialogs/dialog.tsx'
import { TextField } from '../../../../ui/forms/field.tsx'
import { Form } from '../../../../ui/forms/form.tsx'
import { textOf } from '../../../../ui/forms/values.ts'
import type { AppOfPage } from '../app-of-page.ts'

interface PendingVariablesProps {
  readonly app: AppOfPage
  readonly state: AppVariables
}

/** The changes that the current release does not have yet, with the button that applies them. */
export function PendingVariables({ app, state }: PendingVariablesProps) {
  const [applying, setApplying] = useState(false)
  const { added, changed, removed } = state.pending
  const count = added.length + changed.length + removed.length
  if (count === 0) return null
  return (
    <section
      aria-label="Changes that are not applied"
      className="flex flex-wrap items-center gap-3 rounded-lg border border-line bg-warn-soft p-4"
    >
      <p className="flex-1">{count === 1 ? '1 change is' : `${count} changes are`} not applied yet.</p>
      <Button variant="primary" onClick={() => setApplying(true)}>
        Apply
      </Button>
      {applying && <ApplyVariables app={app} state={state} onClose={() => setApplying(false)} />}
    </section>
  )
}

function ApplyVariables({ app, state, onClose }: PendingVariablesProps & { readonly onClose: () => void }) {
  const apply = useApply(app)
  const { added, changed, removed } = state.pending
  return (
    <Dialog
      open
      onClose={onClose}
      title="Apply the changes"
      description="Deploys the serving commit again, as a new release with these variables."
    >
      <Form mutation={apply} submit="Apply" onCancel={onClose}>
        <Names label="Added" names={added} />
        <Names label="Changed" names={changed} />
        <Names label="Removed" names={removed} />
        <TextField
          label="Access token"
          name="git_token"
          type="password"
          autoComplete="off"
          placeholder="for private repositories"
        />
      </Form>
    </Dialog>
  )
}

function Names({ label, names }: { readonly label: string; readonly names: readonly string[] }) {
  if (names.length === 0) return null
  return (
    <p>
      {label}: <code className="break-all">{names.join(', ')}</code>
    </p>
  )
}

/** Returns the mutation that applies the variables, and opens the page of the new deployment. */
function useApply({ projectId, appId }: AppOfPage) {
  const queryClient = useQueryClient()
  const navigate = useNavigate()
  return useMutation({
    mutationFn: (values: FormData) => {
      const token = textOf(values, 'git_token')
      const body = token === '' ? {} : { git_token: token }
      return api.apps.apply({ params: { project_id: projectId, id: appId }, body })
    },
    onSuccess: async ({ id }) => {
      await queryClient.invalidateQueries({ queryKey: ['projects', projectId] })
      await navigate({
        to: '/projects/$projectId/deployments/$deploymentId',
        params: { projectId, deploymentId: id },
      })
    },
  })
}
