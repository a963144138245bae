/**
 * The layers of docs/ARCHITECTURE.md: arrows point down only, and each outside thing has one door.
 * `layers` lists, for each folder of src, the folders that it may import.
 */
const layers = {
  domain: [],
  disk: ['domain'],
  intents: ['domain'],
  state: ['disk', 'domain'],
  service: ['domain'],
  trash: ['state', 'disk', 'domain'],
  namespace: ['intents', 'service', 'state', 'disk', 'domain'],
  outbox: ['intents', 'trash', 'service', 'state', 'disk', 'domain'],
  content: ['service', 'state', 'disk', 'domain'],
  zip: ['service', 'state', 'disk', 'domain'],
  drive: [
    'intents',
    'namespace',
    'outbox',
    'trash',
    'content',
    'zip',
    'service',
    'state',
    'disk',
    'domain',
  ],
  kernel: ['drive', 'disk', 'domain'],
  control: [
    'drive',
    'intents',
    'outbox',
    'trash',
    'content',
    'namespace',
    'state',
    'disk',
    'domain',
  ],
  trace: ['kernel', 'control', 'domain'],
  metrics: ['loopback', 'kernel', 'control', 'service', 'config', 'disk', 'domain'],
  loopback: ['disk', 'domain'],
  'local-service': ['service', 'disk', 'domain'],
  config: ['disk', 'domain'],
  profiles: ['config', 'disk', 'domain'],
  web: ['mount', 'loopback', 'control', 'drive', 'outbox', 'config', 'domain'],
  api: ['mount', 'service', 'config', 'domain'],
  mount: [
    'metrics',
    'trace',
    'loopback',
    'kernel',
    'control',
    'drive',
    'namespace',
    'outbox',
    'trash',
    'content',
    'zip',
    'intents',
    'service',
    'state',
    'profiles',
    'config',
    'disk',
    'domain',
  ],
}

/** The same for the folders of src/drive; what lies beside them (`drive.ts`, `assemble.ts`) may import all of them. */
const rooms = {
  space: [],
  tree: ['space'],
  root: ['tree', 'space'],
  folders: ['root', 'tree', 'space'],
  moves: ['folders', 'root', 'tree', 'space'],
  virtual: ['root', 'tree'],
}

/** Packages that only one folder may import, or two. */
const doors = {
  undici: 'service',
  'fuse-native': 'kernel',
  koffi: 'kernel',
  fastify: 'local-service',
  '@fastify/multipart': 'local-service',
  commander: 'cli',
  'cli-progress': 'cli',
  'prom-client': 'metrics',
  pino: 'cli',
  archiver: 'zip',
  unzipper: 'zip',
  'classic-level': '(disk|state)',
  yaml: 'profiles',
}

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    ...Object.entries(layers).map(([folder, allowed]) => ({
      name: `${folder}-points-down`,
      severity: 'error',
      from: { path: `^src/${folder}/` },
      to: { path: '^src/', pathNot: `^src/(${[folder, ...allowed].join('|')})/` },
    })),
    ...Object.entries(rooms).map(([room, allowed]) => ({
      name: `drive-${room}-points-down`,
      severity: 'error',
      from: { path: `^src/drive/${room}/` },
      to: {
        path: '^src/drive/',
        pathNot: `^src/drive/(settings\\.ts$|(${[room, ...allowed].join('|')})/)`,
      },
    })),
    {
      name: 'local-service-knows-only-the-wire',
      severity: 'error',
      from: { path: '^src/local-service/' },
      to: { path: '^src/service/', pathNot: '^src/service/wire\\.ts$' },
    },
    {
      // It runs in a browser.
      name: 'the-page-knows-only-its-view',
      severity: 'error',
      from: { path: '^src/web/page/' },
      to: { pathNot: '^src/web/(page/|view\\.ts$)' },
    },
    {
      name: 'the-page-is-no-module-of-the-program',
      severity: 'error',
      from: { pathNot: '^src/web/page/' },
      to: { path: '^src/web/page/' },
    },
    {
      // Else a short command loads the libraries of all.
      name: 'commands-are-loaded-when-named',
      severity: 'error',
      from: { path: '^src/(main|cli/program)\\.ts$' },
      to: {
        path: '^src/',
        pathNot: '^src/(config/env|cli/(context|errors|output|version))\\.ts$',
        dynamic: false,
      },
    },
    ...Object.entries(doors).map(([name, folder]) => ({
      name: `one-door-for-${name.replace(/\W/g, '-')}`,
      severity: 'error',
      from: { path: '^src/', pathNot: `^src/${folder}/` },
      to: { path: `^node_modules/${name}/` },
    })),
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node'] },
  },
}
