import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { api } from '../../../../data/client.ts'
import { Dialog } from '../../../../ui/dialogs/dialog.tsx'
import { SelectField, TextField } from '../../../../ui/forms/field.tsx'
import { Form } from '../../../../ui/forms/form.tsx'
import { textOf } from '../../../../ui/forms/values.ts'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'

/** Adds a domain, and opens its page, which has the records to set. */
export function AddDomain({ app, onClose }: { readonly app: AppOfPage; readonly onClose: () => void }) {
  const add = useAdd(app)
  return (
    <Dialog
      open
      onClose={onClose}
      title="Add a domain"
      description="The next page has the DNS records to set. The domain is served as soon as they are found."
    >
      <Form mutation={add} submit="Add domain" onCancel={onClose}>
        <TextField
          label="Name"
          name="name"
          autoComplete="off"
          autoCapitalize="off"
          spellCheck={false}
          placeholder="www.example.com"
          hint="A name that you own, or *.example.com for all names directly below it."
        />
        <SelectField label="Its visitors" name="redirect">
          <option value="no">get the app</option>
          <option value="yes">are sent to the primary domain</option>
        </SelectField>
      </Form>
    </Dialog>
  )
}

function useAdd(app: AppOfPage) {
  const queryClient = useQueryClient()
  const navigate = useNavigate()
  return useMutation({
    mutationFn: (values: FormData) =>
      api.domains.create({
        params: paramsOf(app),
        body: { name: textOf(values, 'name'), redirect: textOf(values, 'redirect') === 'yes' },
      }),
    onSuccess: async ({ id }) => {
      await queryClient.invalidateQueries({ queryKey: ['projects', app.projectId, 'apps', app.appId, 'domains'] })
      await navigate({
        to: '/projects/$projectId/apps/$appId/domains/$domainId',
        params: { projectId: app.projectId, appId: app.appId, domainId: id },
      })
    },
  })
}
