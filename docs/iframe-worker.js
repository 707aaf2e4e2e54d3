// Search without a server. Browsers give no workers to pages that were opened from the disk: there, a
// hidden frame runs the script of the worker instead.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      const script = document.createElement("script");
      script.src = url;
      frame.hidden = true;
      frame.srcdoc = script.outerHTML;
      this.inside = new Promise((done) => {
        frame.onload = () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          done(inside);
        };
      });
      document.body.append(frame);
    }
    postMessage(data) {
      this.inside.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
