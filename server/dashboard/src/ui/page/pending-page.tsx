import { Page, Panel } from './page.tsx'
import { Loading } from './states.tsx'

/** Makes the component that is shown while a page's code loads. */
export const pendingPage = (title: string) => () => (
  <Page title={title}>
    <Panel flush>
      <Loading label="the page" />
    </Panel>
  </Page>
)
