// Renderers for a job's displays: text, tables, formulas and bitmaps. They create no links, load
// nothing and run no scripts.
import {
  htmlRendererFactory,
  imageRendererFactory,
  latexRendererFactory,
  markdownRendererFactory,
  RenderMimeRegistry,
  textRendererFactory,
  type IRenderMime,
  type IRenderMimeRegistry
} from '@jupyterlab/rendermime';

const TAGS =
  'b blockquote br caption code col colgroup dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i ins ' +
  'kbd li mark ol p pre s samp small span strong sub summary sup table tbody td tfoot th thead tr u ul';

const POLICY = {
  allowedTags: TAGS.split(' '),
  allowedAttributes: { td: ['colspan', 'rowspan'], th: ['colspan', 'rowspan'], ol: ['start'] }
};

export function passive({
  sanitizer,
  latexTypesetter,
  markdownParser
}: IRenderMimeRegistry): IRenderMimeRegistry {
  const strict: IRenderMime.ISanitizer = {
    sanitize: dirty => sanitizer.sanitize(dirty, POLICY),
    getAutolink: () => false
  };
  return new RenderMimeRegistry({
    initialFactories: [
      htmlRendererFactory,
      imageRendererFactory,
      latexRendererFactory,
      markdownRendererFactory,
      textRendererFactory
    ],
    sanitizer: strict,
    ...(latexTypesetter === null ? {} : { latexTypesetter }),
    ...(markdownParser === null ? {} : { markdownParser })
  });
}
