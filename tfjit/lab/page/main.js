"use strict";
/* Read the data, show the page, and listen. */

const page = new Page(JSON.parse($("data").textContent));
page.start();
listenToKeys(page);
listenToMouse(page);
listenToPanels(page);
