// GitHub's own client at a GitHub: node octokit.mjs, which reads what to do as JSON on its standard input.
// It prints one JSON line for each step: {"step": …, …}. The lines `type the code` and `go on` are answered on the input.
import { createInterface } from 'node:readline';
import { createOAuthDeviceAuth } from '@octokit/auth-oauth-device';
import { deleteAuthorization, refreshToken } from '@octokit/oauth-methods';
import { request } from '@octokit/request';
import { verify } from '@octokit/webhooks-methods';
import { App, Octokit } from 'octokit';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const heard = async () => JSON.parse((await lines.next()).value);
const say = (step, told) => console.log(JSON.stringify({ step, ...told }));
const refused = async (promise) => promise.then(() => 200, (error) => error.status);

const told = await heard();
const AtUrl = Octokit.defaults({ baseUrl: told.api, throttle: { enabled: false }, retry: { enabled: false } });
const app = new App({
  appId: told.appId,
  privateKey: told.privateKey,
  oauth: { clientId: told.clientId, clientSecret: told.clientSecret },
  webhooks: { secret: told.webhookSecret },
  Octokit: AtUrl,
});

say('app', { slug: (await app.octokit.rest.apps.getAuthenticated()).data.slug });

const repositories = [];
for await (const { repository } of app.eachRepository.iterator()) repositories.push(repository.full_name);
say('repositories', { repositories });

const [owner, repo] = told.repository.split('/');
const atUrl = request.defaults({ baseUrl: told.api });
const device = createOAuthDeviceAuth({
  clientType: 'github-app',
  clientId: told.clientId,
  onVerification: (login) => say('type the code', { code: login.user_code, url: login.verification_uri }),
  request: atUrl,
});
const person = await device({ type: 'oauth' });
const user = new AtUrl({ auth: person.token });
say('user', { login: (await user.rest.users.getAuthenticated()).data.login, expires: person.expiresAt });

const installations = await user.paginate(user.rest.apps.listInstallationsForAuthenticatedUser);
say('installations', { accounts: installations.map((one) => one.account.login) });

const pull = (await user.rest.pulls.create({ owner, repo, head: 'work', base: 'main', title: 'A change' })).data;
await user.rest.issues.createComment({ owner, repo, issue_number: pull.number, body: 'Done.' });
const again = await refused(user.rest.pulls.create({ owner, repo, head: 'work', base: 'main', title: 'A change' }));
const comments = await user.paginate(user.rest.issues.listComments, { owner, repo, issue_number: pull.number });
say('pull', { number: pull.number, again, comments: comments.map((one) => one.body) });

const checks = (await user.rest.checks.listForRef({ owner, repo, ref: 'work' })).data;
const log = await user.rest.actions.downloadJobLogsForWorkflowRun({ owner, repo, job_id: checks.check_runs[0].id });
say('checks', { conclusion: checks.check_runs[0].conclusion, log: log.data });

const secrets = { clientType: 'github-app', clientId: told.clientId, clientSecret: told.clientSecret, request: atUrl };
const { authentication } = await refreshToken({ ...secrets, refreshToken: person.refreshToken });
const before = await refused(user.rest.users.getAuthenticated());
await deleteAuthorization({ ...secrets, token: authentication.token });
const after = await refused(new AtUrl({ auth: authentication.token }).rest.users.getAuthenticated());
say('tokens', { refreshed: before, revoked: after });

const { body, signature } = await heard();
say('webhook', {
  verified: await verify(told.webhookSecret, body, signature),
  changed: await verify(told.webhookSecret, body + ' ', signature),
});
process.exit(0);
